// Which ops get a recorder: every ATen op that PyTorch does not compose from others, and those
// composed ones that are worth a program of their own.
#include <ATen/core/enum_tag.h>
#include <ATen/native/CPUFallback.h>
#include <torch/library.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "eager/composites.h"
#include "eager/execute.h"
#include "eager/native_kernels.h"
#include "eager/recorder.h"

namespace torch_tpu {

namespace {

std::string full_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

bool has_kernel(const c10::OperatorHandle& op, c10::DispatchKey key) {
  return op.hasKernelForDispatchKey(key);
}

// as_strided_, squeeze_ and their like change the tensor, not its values.
bool changes_geometry(const c10::OperatorHandle& op) {
  const auto& tags = op.getTags();
  return std::ranges::find(tags, at::Tag::inplace_view) != tags.end();
}

// Whether PyTorch makes it out of other ops, on the CPU too.
bool is_composed(const c10::OperatorHandle& op) {
  return has_kernel(op, c10::DispatchKey::CompositeExplicitAutograd) ||
         (has_kernel(op, c10::DispatchKey::CompositeExplicitAutogradNonFunctional) &&
          !has_kernel(op, c10::DispatchKey::CPU));
}

bool wants_recorder(const c10::OperatorHandle& op) {
  if (has_kernel(op, c10::DispatchKey::CompositeImplicitAutograd) ||
      has_kernel(op, c10::DispatchKey::PrivateUse1) || changes_geometry(op)) {
    return false;
  }
  return !is_composed(op) || is_recorded_composite(op.operator_name());
}

// Recorders by op name. They live as long as the process, as the dispatcher's kernels do.
class Recorders {
 public:
  std::shared_ptr<Recorder> get(const c10::OperatorHandle& op) {
    std::lock_guard lock(mutex_);
    auto& recorder = by_name_[full_name(op.operator_name())];
    if (!recorder) recorder = std::make_shared<Recorder>(op);
    return recorder;
  }
  static Recorders& instance() {
    alignas(Recorders) static std::byte memory[sizeof(Recorders)];
    static Recorders& recorders = *::new (memory) Recorders();
    return recorders;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Recorder>> by_name_;
};

// What the dispatcher owns; the recorder itself is shared with record().
class RecorderKernel final : public c10::OperatorKernel {
 public:
  explicit RecorderKernel(std::shared_ptr<Recorder> recorder) : recorder_(std::move(recorder)) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
    recorder_->run(*stack);
  }

 private:
  std::shared_ptr<Recorder> recorder_;
};

// Ops of other libraries (torchvision::nms) that have no tpu kernel.
void run_unregistered(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Recorders::instance().get(op)->run(*stack);
}

// Refuses tensors of a layout that tpu doesn't have; `advice` says what to do instead.
class RefusingKernel final : public c10::OperatorKernel {
 public:
  explicit RefusingKernel(const char* advice) : advice_(advice) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack*) {
    TORCH_CHECK_NOT_IMPLEMENTED(false, full_name(op.operator_name()), ": ", advice_);
  }

 private:
  const char* advice_;
};

constexpr const char* kSparse =
    "tpu tensors are dense, and a sparse one can't be there: keep it on the CPU, or make it dense "
    "with to_dense(); an embedding's gradient is dense with sparse=False";
constexpr std::pair<c10::DispatchKey, const char*> kRefused[] = {
    {c10::DispatchKey::SparsePrivateUse1, kSparse},
    {c10::DispatchKey::SparseCsrPrivateUse1, kSparse},
    {c10::DispatchKey::QuantizedPrivateUse1,
     "a quantized tensor can't be on tpu: dequantize() it, or use the ops that quantize within a "
     "float tensor (fake_quantize_per_tensor_affine)"},
    {c10::DispatchKey::NestedTensorPrivateUse1,
     "it takes no nested tensors of layout torch.strided on tpu: make them with "
     "layout=torch.jagged; nn.TransformerEncoder makes none with mask_check=True or with "
     "enable_nested_tensor=False"},
};

}  // namespace

void record(const char* name, const char* overload, torch::jit::Stack& stack) {
  auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  Recorders::instance().get(op)->run(stack);
}

void register_kernels() {
  static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1,
                                __FILE__, __LINE__);
  static torch::Library others(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__,
                               __LINE__);
  // PyTorch's fallbacks for these bits would copy into a resolved clone of the destination; our
  // copy sees both ends as the views that they are.
  static torch::Library conjugate(torch::Library::IMPL, "aten", c10::DispatchKey::Conjugate,
                                  __FILE__, __LINE__);
  static torch::Library negative(torch::Library::IMPL, "aten", c10::DispatchKey::Negative, __FILE__,
                                 __LINE__);
  for (torch::Library* bit : {&conjugate, &negative}) {
    bit->impl("_copy_from", torch::CppFunction::makeFallthrough());
  }
  static torch::Library nested(torch::Library::IMPL, "aten",
                               c10::DispatchKey::NestedTensorPrivateUse1, __FILE__, __LINE__);
  register_nested_kernels(nested, library);
  register_native_kernels(library);
  register_copy_kernels(library);
  register_decided_lengths(library);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with("aten::")) continue;
    auto op = dispatcher.findSchema(name);
    if (!op.has_value() || !wants_recorder(*op)) continue;
    auto kernel = std::make_unique<RecorderKernel>(Recorders::instance().get(*op));
    library.impl(full_name(name).c_str(),
                 torch::CppFunction::makeFromBoxedKernel(
                     c10::BoxedKernel::makeFromFunctor(std::move(kernel))));
  }
  others.fallback(torch::CppFunction::makeFromBoxedFunction<&run_unregistered>());
  static std::deque<torch::Library> refused;
  for (const auto& [layout, advice] : kRefused) {
    refused.emplace_back(torch::Library::IMPL, "_", layout, __FILE__, __LINE__)
        .fallback(torch::CppFunction::makeFromBoxedKernel(
            c10::BoxedKernel::makeFromFunctor(std::make_unique<RefusingKernel>(advice))));
  }
}

}  // namespace torch_tpu
