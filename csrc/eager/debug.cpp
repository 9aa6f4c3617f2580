#include "eager/debug.h"

#include <ATen/Functions.h>

#include <iostream>
#include <sstream>

#include "device/gil.h"
#include "eager/recorder.h"

namespace torch_tpu {

namespace {

std::atomic<bool> nan_checks{false}, op_printing{false};

void for_each_tensor(const c10::IValue& value,
                     const std::function<void(const at::Tensor&)>& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const c10::IValue& each : value.toListRef()) for_each_tensor(each, visit);
  }
}

std::string shape_of(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.scalar_type() << tensor.sizes();
  return text.str();
}

void check_finite(const Op& op, const at::Tensor& tensor) {
  if (!at::isFloatingType(tensor.scalar_type()) && !at::isComplexType(tensor.scalar_type())) return;
  // On the host: the check itself must not show up as ops of the user's.
  at::Tensor values = tensor.cpu();
  int64_t nans = at::isnan(values).sum().item<int64_t>();
  int64_t infinities = at::isinf(values).sum().item<int64_t>();
  TORCH_CHECK(nans == 0 && infinities == 0, op.name, " gave ", nans, " NaN and ", infinities,
              " Inf values in its ", shape_of(tensor), " output");
}

}  // namespace

void set_nan_checks(bool enabled) { nan_checks = enabled; }
void set_op_printing(bool enabled) { op_printing = enabled; }

bool inspecting() { return eager_mode() == EagerMode::kDebug || nan_checks || op_printing; }

void inspect(const Op& op, Ordinal ordinal, const torch::jit::Stack& stack) {
  {
    ReleaseGil no_gil;
    Runtime::get().synchronize(ordinal);
  }
  const size_t returns = op.handle.schema().returns().size();
  std::string shapes;
  for (size_t i = stack.size() - returns; i < stack.size(); ++i) {
    for_each_tensor(stack[i], [&](const at::Tensor& tensor) {
      if (op_printing) shapes += (shapes.empty() ? "" : ", ") + shape_of(tensor);
    });
  }
  if (op_printing) std::cerr << op.name << " -> " << shapes << std::endl;
  if (!nan_checks) return;
  for (size_t i = stack.size() - returns; i < stack.size(); ++i) {
    for_each_tensor(stack[i], [&](const at::Tensor& tensor) { check_finite(op, tensor); });
  }
}

}  // namespace torch_tpu
