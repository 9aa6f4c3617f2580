#include "eager/execute.h"

#include <ATen/core/Tensor.h>
#include <ATen/native/CPUFallback.h>

#include <algorithm>

#include "device/counters.h"
#include "device/device.h"
#include "device/gil.h"
#include "device/storage.h"

namespace torch_tpu {

namespace {

// The filled slots are the inputs of a call that runs alone.
std::vector<Edge> edges_of(const Call& call) {
  std::vector<Edge> edges;
  Edge input = 0;
  for (const Slot& slot : call.slots) edges.push_back(slot.value ? 2 * input++ : kUnfilled);
  return edges;
}

Outputs launch(const Program& program, Call& call) {
  c10::SmallVector<PJRT_Buffer*, 16> inputs;
  for (const Slot& slot : call.slots) {
    if (slot.value) inputs.push_back(slot.value->buffer().get());
  }
  if (call.op.random) call.draw_random();
  return program.launch({inputs.data(), inputs.size()},
                        {{call.ints.data(), call.ints.size()},
                         {call.floats.data(), call.floats.size()},
                         call.op.random},
                        call.ordinal, call.op.name.c_str());
}

void donate(Call& call, const c10::SmallVectorImpl<uint32_t>& inputs) {
  if (inputs.empty()) return;
  uint32_t input = 0;
  for (const Slot& slot : call.slots) {
    if (!slot.value) continue;
    if (std::ranges::find(inputs, input++) != inputs.end()) slot.value->donate();
  }
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

// Autograd counts the writes to a tensor that an op returns; lists are not returned.
void count_list_writes(const Call& call) {
  for (size_t i = 0; i < call.op.arguments.size(); ++i) {
    if (!call.op.arguments[i].written || !call.argument(i).isTensorList()) continue;
    for (const c10::IValue& each : call.argument(i).toListRef()) {
      const at::Tensor& tensor = each.toTensor();
      if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
    }
  }
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

void resize_arguments(const Plan& plan, const Call& call) {
  for (const Resize& resize : plan.resizes) resize_argument(resize, call);
}

void deliver(const Plan& plan, Call& call, std::span<ValuePtr> values, int64_t length) {
  c10::SmallVector<at::Tensor, 4> created;
  size_t place = 0;
  for (const NewTensor& info : plan.created) {
    created.push_back(created_tensor(info, std::move(values[place++]), length));
  }
  for (const Write& write : plan.writes)
    call.slots[write.slot].cell->store(std::move(values[place++]));
  if (call.op.writes_list) count_list_writes(call);
  c10::SmallVector<c10::IValue, 4> results;
  for (const Return& result : plan.returns) results.push_back(result_of(result, call, created));
  torch::jit::drop(call.stack, call.op.arguments.size());
  for (c10::IValue& result : results) call.stack.push_back(std::move(result));
  call.clock.finish(Stage::kDeliver);
}

void execute(const Plan& plan, Call& call, int64_t length) {
  resize_arguments(plan, call);
  c10::SmallVector<ValuePtr, 4> values;
  if (plan.computes()) {
    const auto donated = call.donated();
    const std::span<const uint32_t> inputs{donated.data(), donated.size()};
    ProgramPtr program = plan.programs.find(inputs);
    if (program) [[likely]] {
      counters().memory_hits.add(1);
    } else {
      program = program_of(alone(plan, edges_of(call), inputs, call.ordinal));
    }
    counters().flushes.add(1);
    call.clock.finish(Stage::kLookup);
    Outputs outputs = launch(*program, call);
    call.clock.finish(Stage::kLaunch);
    donate(call, donated);
    const PJRT_Api* api = Runtime::get().client().plugin()->api();
    size_t place = 0;
    auto take = [&](const Dims& dims, c10::ScalarType dtype) {
      values.push_back(c10::make_intrusive<Value>(pjrt::Buffer(api, outputs[place++]), dims, dtype,
                                                  call.ordinal));
    };
    for (const NewTensor& info : plan.created) take(info.value_dims, info.dtype);
    for (const Write& write : plan.writes) take(write.dims, write.dtype);
    if (!plan.checks.empty()) {
      Runtime::get().report_later(call.ordinal,
                                  {pjrt::Buffer(api, outputs[place]), &plan.checks, {}});
    }
  }
  deliver(plan, call, {values.data(), values.size()}, length);
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

void run_on_cpu(const Op& op, torch::jit::Stack& stack) {
  counters().fallbacks.add(1);
  compiler().report_fallback(op, stack);
  at::native::cpu_fallback(op.handle, &stack);
}

}  // namespace torch_tpu
