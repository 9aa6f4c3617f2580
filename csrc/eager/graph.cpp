#include "eager/graph.h"

#include "device/counters.h"
#include "device/device.h"
#include "device/gil.h"
#include "device/storage.h"
#include "eager/precision.h"

namespace torch_tpu {

namespace {

enum class Tag : uint8_t { kUnfilled, kWhole, kView, kWindow, kPadded };

bool has_bits(const c10::TensorImpl& tensor) {
  return tensor.key_set().has_any(c10::DispatchKeySet(c10::DispatchKey::Conjugate) |
                                  c10::DispatchKeySet(c10::DispatchKey::Negative));
}

// The elements from a view's first to its last.
int64_t span_of(const c10::TensorImpl& tensor) {
  int64_t span = 1;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    span += (tensor.size(dim) - 1) * tensor.stride(dim);
  }
  return span;
}

// The rows of the Value that hold a window of `span` elements: the fewest trailing dims that are
// as long.
int64_t row_of(const Dims& dims, int64_t span) {
  int64_t row = 1;
  for (size_t dim = dims.size(); dim-- > 0 && row < span;) row *= dims[dim];
  return row;
}

c10::intrusive_ptr<c10::StorageImpl> storage_of(const c10::TensorImpl& tensor) {
  return c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(
      tensor.unsafe_storage().unsafeGetStorageImpl());
}

Binding view_of(const c10::TensorImpl& tensor, const ValuePtr& value) {
  Binding binding{.filled = bool(value),
                  .sizes = Dims(tensor.sizes()),
                  .strides = Dims(tensor.strides()),
                  .dtype = c10::typeMetaToScalarType(tensor.dtype()),
                  .offset = tensor.storage_offset(),
                  .conj = tensor.key_set().has(c10::DispatchKey::Conjugate),
                  .neg = tensor.key_set().has(c10::DispatchKey::Negative)};
  if (!value) {
    binding.value_dtype = binding.dtype;
    binding.value_dims = {
        static_cast<int64_t>(tensor.unsafe_storage().nbytes() / tensor.itemsize())};
    return binding;
  }
  binding.value_dtype = value->dtype();
  binding.value_dims = value->dims();
  const int64_t span = span_of(tensor);
  if (binding.value_dtype == binding.dtype && tensor.numel() > 0 &&
      span < c10::multiply_integers(value->dims())) {
    const int64_t row = row_of(value->dims(), span);
    binding.aligned = binding.offset % row == 0 ? row : 1;
    binding.offset = -1;
  }
  return binding;
}

Binding whole(const Value& value) {
  Binding binding{.filled = true,
                  .value_dims = value.dims(),
                  .value_dtype = value.dtype(),
                  .sizes = value.dims(),
                  .strides = value.dims(),
                  .dtype = value.dtype()};
  int64_t stride = 1;
  for (size_t dim = binding.sizes.size(); dim-- > 0;) {
    binding.strides[dim] = stride;
    stride *= std::max<int64_t>(binding.sizes[dim], 1);
  }
  return binding;
}

Dims resolved(const Dims& dims, std::span<const int64_t> sizes) {
  Dims result = dims;
  for (int64_t& dim : result) {
    if (dim < 0) dim = sizes[-1 - dim];
  }
  return result;
}

}  // namespace

GraphCall::GraphCall(std::span<const GraphInput> inputs, Ordinal ordinal,
                     std::vector<int64_t> bounds)
    : ordinal(ordinal), bounds(std::move(bounds)), inputs_(inputs) {
  bound_.reserve(inputs.size());
  key.add(matmul_precision());
  key.add_ints(this->bounds);
}

void GraphCall::add_tensor(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  check_usable(impl);
  TORCH_CHECK(impl.device().index() == ordinal,
              "torch_tpu: a graph that was compiled for tpu:", int(ordinal), " got a tensor on ",
              impl.device());
  const GraphInput& input = inputs_[bound_.size()];
  const Cell& cell = cell_of(tensor);
  Bound& bound = bound_.emplace_back(Bound{&cell, cell.load()});
  if (input.written) bound.storage = storage_of(impl);
  const auto dtype = c10::typeMetaToScalarType(impl.dtype());
  if (bound.value) {
    bound.value->check_not_failed();
    if (input.padded) {
      key.add(Tag::kPadded);
      key.add(dtype);
      key.add_ints(bound.value->dims());
      return;
    }
    if (bound.value->dtype() == dtype && impl.storage_offset() == 0 && impl.is_contiguous() &&
        impl.sizes() == c10::IntArrayRef(bound.value->dims()) && !has_bits(impl)) [[likely]] {
      key.add(Tag::kWhole);
      key.add(dtype);
      key.add_ints(impl.sizes());
      return;
    }
  }
  bound.view = std::make_unique<Binding>(view_of(impl, bound.value));
  const Binding& view = *bound.view;
  key.add(view.filled ? view.aligned ? Tag::kWindow : Tag::kView : Tag::kUnfilled);
  key.add(dtype);
  key.add(view.value_dtype);
  key.add_ints(view.value_dims);
  key.add_ints(view.sizes);
  key.add_ints(view.strides);
  key.add(view.offset);
  key.add(view.aligned);
  key.add(view.conj);
  key.add(view.neg);
  if (view.aligned) ints.push_back(impl.storage_offset() / view.aligned);
}

std::vector<Binding> GraphCall::bindings() const {
  std::vector<Binding> bindings;
  for (const Bound& bound : bound_) {
    bindings.push_back(bound.view ? *bound.view : whole(*bound.value));
    if (!slots_.empty()) bindings.back().slot = slots_[bindings.size() - 1];
  }
  return bindings;
}

// Arguments that share a storage which one of them writes. There are seldom any: a Value that
// nothing but its cell and one argument holds is no such argument's.
void GraphCall::find_shared() {
  for (size_t written = 0; written < bound_.size(); ++written) {
    const Bound& bound = bound_[written];
    if (!inputs_[written].written || (bound.value && bound.value.use_count() == 2)) continue;
    int32_t first = -1;
    for (size_t other = 0; other < bound_.size(); ++other) {
      if (bound_[other].cell != bound.cell) continue;
      if (first == -1) {
        first = static_cast<int32_t>(other);
        continue;
      }
      slots_.resize(bound_.size(), -1);
      slots_[first] = slots_[other] = first;
    }
  }
  for (int32_t slot : slots_) key.add(slot);
}

void GraphCall::find_donated() {
  find_shared();
  uint32_t place = 0;
  for (size_t argument = 0; argument < bound_.size(); ++argument) {
    const Bound& bound = bound_[argument];
    if (!bound.value) continue;
    const GraphInput& input = inputs_[argument];
    // A written storage's cell holds the Value besides this call; a dead one's is gone.
    const size_t holders = input.written ? 2 : 1;
    if ((input.written || input.reusable) && bound.value.use_count() == holders) {
      donated.push_back(place);
    }
    ++place;
  }
  key.add_ints(c10::SmallVector<int64_t, 16>(donated.begin(), donated.end()));
}

Graph::Graph(std::string label, std::vector<GraphInput> inputs, int64_t draws, Ordinal ordinal,
             Make make)
    : label_(std::move(label)),
      inputs_(std::move(inputs)),
      draws_(draws),
      ordinal_(ordinal),
      make_(std::move(make)) {}

std::pair<Graph::GraphProgramPtr, ProgramPtr> Graph::program_for(const GraphCall& call) {
  auto find = [&]() -> std::pair<GraphProgramPtr, ProgramPtr> {
    std::lock_guard lock(mutex_);
    if (latest_.first != call.key.view()) {
      auto found = programs_.find(std::string(call.key.view()));
      if (found == programs_.end()) return {};
      latest_ = {found->first, found->second};
    }
    return {latest_.second, latest_.second->program->load()};
  };
  if (auto found = find(); found.second) {
    counters().memory_hits.add(1);
    return found;
  }
  CompileTurn turn;
  if (auto found = find(); found.second) return found;
  auto made = std::make_shared<const GraphProgram>(make_(call));
  ProgramPtr program = made->program->load();
  std::lock_guard lock(mutex_);
  programs_[std::string(call.key.view())] = made;
  latest_ = {};
  return {std::move(made), std::move(program)};
}

std::vector<at::Tensor> Graph::run(GraphCall& call, std::span<const int64_t> sizes) {
  call.find_donated();
  const auto [graph, program] = program_for(call);
  if (draws_ > 0) {
    auto [seed, offset] = next_random(std::nullopt, ordinal_, draws_);
    call.ints.push_back(static_cast<int64_t>(seed));
    call.ints.push_back(static_cast<int64_t>(offset));
  }
  Outputs outputs;
  {
    ReleaseGil no_gil;
    c10::SmallVector<PJRT_Buffer*, 64> inputs;
    for (const GraphCall::Bound& bound : call.bound_) {
      if (bound.value) inputs.push_back(bound.value->buffer().get());
    }
    outputs = program->launch({inputs.data(), inputs.size()}, {call.ints, call.floats, draws_ > 0},
                              ordinal_, label_.c_str());
    uint32_t place = 0;
    auto donated = call.donated.begin();
    for (GraphCall::Bound& bound : call.bound_) {
      if (!bound.value) continue;
      if (donated != call.donated.end() && *donated == place++) {
        ++donated;
        bound.value->donate();
      }
    }
  }
  const PJRT_Api* api = Runtime::get().client().plugin()->api();
  size_t place = 0;
  auto take = [&](const Dims& dims, c10::ScalarType dtype) {
    return c10::make_intrusive<Value>(pjrt::Buffer(api, outputs[place++]), dims, dtype, ordinal_);
  };
  std::vector<at::Tensor> created;
  created.reserve(graph->created.size());
  for (const NewTensor& info : graph->created) {
    ValuePtr value = take(info.value_dims, info.dtype);
    created.push_back(
        make_tensor(std::move(value), resolved(info.sizes, sizes), resolved(info.strides, sizes)));
  }
  for (const Write& write : graph->writes) {
    Cell::of(*call.bound_[write.slot].storage).store(take(write.dims, write.dtype));
  }
  if (!graph->checks->empty()) {
    Runtime::get().report_later(ordinal_, {pjrt::Buffer(api, outputs[place]), graph->checks, {}});
  }
  return created;
}

}  // namespace torch_tpu
