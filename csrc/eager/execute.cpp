#include "eager/execute.h"

#include <ATen/core/Tensor.h>

#include <list>

#include "device/counters.h"
#include "device/device.h"
#include "device/gil.h"
#include "device/storage.h"

namespace torch_tpu {

namespace {

// Device copies of the numbers that calls pass, by content: most loops pass the same few.
class NumberCache {
 public:
  using BufferPtr = std::shared_ptr<pjrt::Buffer>;

  BufferPtr get(pjrt::ElementType type, const void* numbers, size_t count, Ordinal ordinal) {
    std::string key(static_cast<const char*>(numbers), count * kNumberBytes);
    key.push_back(static_cast<char>(type));
    key.push_back(static_cast<char>(ordinal));
    {
      std::lock_guard lock(mutex_);
      if (auto found = places_.find(key); found != places_.end()) {
        recent_.splice(recent_.begin(), recent_, found->second);
        return found->second->second;
      }
    }
    auto buffer = std::make_shared<pjrt::Buffer>(upload(type, numbers, count, ordinal));
    std::lock_guard lock(mutex_);
    recent_.emplace_front(key, buffer);
    places_[key] = recent_.begin();
    if (recent_.size() > kCapacity) {
      places_.erase(recent_.back().first);
      recent_.pop_back();
    }
    return buffer;
  }

  static pjrt::Buffer upload(pjrt::ElementType type, const void* numbers, size_t count,
                             Ordinal ordinal) {
    const int64_t dims[] = {static_cast<int64_t>(count)};
    return Runtime::get().client().from_host(numbers, type, dims, ordinal);
  }

  static NumberCache& instance() {
    static NumberCache cache;
    return cache;
  }

 private:
  static constexpr size_t kNumberBytes = 8, kCapacity = 4096;
  using Entries = std::list<std::pair<std::string, BufferPtr>>;

  std::mutex mutex_;
  Entries recent_;
  std::unordered_map<std::string, Entries::iterator> places_;
};

struct NumberInputs {
  NumberCache::BufferPtr ints, floats;

  explicit NumberInputs(const Program& program, Call& call) {
    if (call.op.random) call.draw_random();
    for (const Parameter& parameter : program.parameters) {
      if (parameter.source == Parameter::Source::kInts) {
        ints = upload(c10::kLong, call.ints.data(), call.ints.size(), call);
      } else if (parameter.source == Parameter::Source::kFloats) {
        floats = upload(c10::kDouble, call.floats.data(), call.floats.size(), call);
      }
    }
  }

 private:
  static NumberCache::BufferPtr upload(c10::ScalarType dtype, const void* numbers, size_t count,
                                       const Call& call) {
    pjrt::ElementType type = element_type(dtype);
    if (call.op.random) {  // a seed and offset never come twice
      return std::make_shared<pjrt::Buffer>(
          NumberCache::upload(type, numbers, count, call.ordinal));
    }
    return NumberCache::instance().get(type, numbers, count, call.ordinal);
  }
};

using Outputs = c10::SmallVector<PJRT_Buffer*, 8>;

Outputs launch(const Program& program, Call& call) {
  NumberInputs numbers(program, call);
  c10::SmallVector<PJRT_Buffer*, 16> arguments;
  for (const Parameter& parameter : program.parameters) {
    switch (parameter.source) {
      case Parameter::Source::kSlot:
        arguments.push_back(call.slots[parameter.slot].value->buffer().get());
        break;
      case Parameter::Source::kInts:
        arguments.push_back(numbers.ints->get());
        break;
      case Parameter::Source::kFloats:
        arguments.push_back(numbers.floats->get());
        break;
    }
  }
  Outputs outputs(program.executable->num_outputs());
  pjrt::Event done;
  counters().executions.add(1);
  counters().flushes.add(1);
  try {
    program.executable->execute({arguments.data(), arguments.size()}, outputs.data(), &done);
  } catch (const pjrt::Error& error) {
    constexpr int kResourceExhausted = 8;
    if (error.code == kResourceExhausted) {
      MemoryUse::of(call.ordinal).out_of_memory += 1;
      TORCH_CHECK_WITH(OutOfMemoryError, false, "TPU out of memory in ", call.op.name, ": ",
                       error.what());
    }
    TORCH_CHECK(false, "TPU error in ", call.op.name, ": ", error.what());
  }
  Runtime::get().started(call.ordinal, std::move(done), call.op.name.c_str());
  return outputs;
}

void resize_argument(const Resize& resize, const Call& call) {
  const c10::IValue* value = &call.argument(resize.argument[0]);
  if (resize.argument.size() > 1) value = &value->toListRef()[resize.argument[1]];
  c10::TensorImpl* tensor = value->toTensor().unsafeGetTensorImpl();
  tensor->set_sizes_and_strides(resize.sizes, resize.strides);
  size_t bytes = tensor->numel() * tensor->itemsize();
  auto* storage = tensor->unsafe_storage().unsafeGetStorageImpl();
  if (bytes > storage->nbytes()) storage->set_nbytes(bytes);
}

c10::IValue result_of(const Return& result, const Call& call,
                      const c10::SmallVectorImpl<at::Tensor>& created) {
  switch (result.kind) {
    case Return::Kind::kNew:
      return created[result.place];
    case Return::Kind::kArgument:
      return call.argument(result.place);
    case Return::Kind::kUndefined:
      return at::Tensor();
    case Return::Kind::kNumber:
      return result.place;
    case Return::Kind::kList:
      break;
  }
  c10::List<at::Tensor> list;
  list.reserve(result.items.size());
  for (const Return& item : result.items) list.push_back(result_of(item, call, created).toTensor());
  return list;
}

at::Tensor created_tensor(const NewTensor& info, ValuePtr value, int64_t length) {
  if (length < 0) return make_tensor(std::move(value), info.sizes, info.strides);
  Dims sizes = info.sizes;
  for (int64_t& size : sizes) {
    if (size == -1) size = length;
  }
  Dims strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * std::max<int64_t>(sizes[i], 1);
  }
  return make_tensor(std::move(value), sizes, strides);
}

}  // namespace

void execute(const Plan& plan, Call& call, int64_t length) {
  for (const Resize& resize : plan.resizes) resize_argument(resize, call);
  Outputs outputs;
  if (plan.program.executable) outputs = launch(plan.program, call);
  const pjrt::Client& client = Runtime::get().client();
  const PJRT_Api* api = client.plugin()->api();
  size_t place = 0;
  auto next_value = [&](const Dims& dims, c10::ScalarType dtype) {
    return c10::make_intrusive<Value>(pjrt::Buffer(api, outputs[place++]), dims, dtype,
                                      call.ordinal);
  };

  c10::SmallVector<at::Tensor, 4> created;
  for (const NewTensor& info : plan.created) {
    created.push_back(created_tensor(info, next_value(info.value_dims, info.dtype), length));
  }
  for (const Write& write : plan.writes) {
    call.slots[write.slot].value.reset();
    call.slots[write.slot].cell->store(next_value(write.dims, write.dtype));
  }
  if (!plan.checks.empty()) {
    Runtime::get().report_later(call.ordinal, {pjrt::Buffer(api, outputs[place]), &plan.checks});
  }

  c10::SmallVector<c10::IValue, 4> results;
  for (const Return& result : plan.returns) results.push_back(result_of(result, call, created));
  torch::jit::drop(call.stack, call.op.arguments.size());
  for (c10::IValue& result : results) call.stack.push_back(std::move(result));
}

int64_t execute_size(const Plan& plan, Call& call) {
  Outputs outputs = launch(*plan.size_program, call);
  pjrt::Buffer length(Runtime::get().client().plugin()->api(), outputs[0]);
  counters().host_syncs.add(1);
  int64_t result = 0;
  {
    ReleaseGil no_gil;
    length.to_host(&result, sizeof(result)).wait();
  }
  Runtime::get().raise_failed_checks(call.ordinal);
  return result;
}

}  // namespace torch_tpu
