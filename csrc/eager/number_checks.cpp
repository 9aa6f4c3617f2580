#include "eager/number_checks.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/OpMathType.h>
#include <ATen/native/DistributionTemplates.h>
#include <ATen/native/TypeProperties.h>

#include <cmath>
#include <unordered_map>

namespace torch_tpu {

namespace {

using Arguments = c10::ArrayRef<c10::IValue>;
namespace distributions = at::native::templates;

// ATen wraps its checks of a distribution's numbers around a kernel; this one leaves the checks.
template <typename>
struct NoKernel {
  template <typename... Ignored>
  void operator()(const Ignored&...) const {}
};
using NoGenerator = void;

// Without elements: what is asked of it are the checks of numbers alone.
at::Tensor nothing() { return {}; }

void check_normal_(Arguments arguments) {
  at::Tensor self = nothing();
  distributions::normal_impl_<NoKernel, NoGenerator>(self, 0, arguments[2].toDouble(), {});
}

void check_normal(Arguments arguments) {
  at::Tensor self = nothing();
  distributions::normal_impl_<NoKernel, NoGenerator>(self, 0, arguments[1].toDouble(), {});
}

void check_uniform_(Arguments arguments) {
  at::Tensor self = arguments[0].toTensor();
  distributions::uniform_impl_<NoKernel, NoGenerator>(self, arguments[1].toDouble(),
                                                      arguments[2].toDouble(), {});
}

void check_random_from(Arguments arguments) {
  at::Tensor self = arguments[0].toTensor();
  distributions::random_from_to_impl<NoKernel, NoGenerator>(self, arguments[1].toInt(),
                                                            arguments[2].toOptional<int64_t>(), {});
}

void check_random_to(Arguments arguments) {
  at::Tensor self = arguments[0].toTensor();
  distributions::random_from_to_impl<NoKernel, NoGenerator>(self, 0, arguments[1].toInt(), {});
}

void check_probability(double p) {
  at::Tensor self = nothing();
  distributions::bernoulli_impl_<NoKernel, NoGenerator>(self, p, {});
}

void check_bernoulli_(Arguments arguments) { check_probability(arguments[1].toDouble()); }

void check_native_dropout(Arguments arguments) {
  const bool training = arguments[2].isNone() || arguments[2].toBool();
  if (training && arguments[0].toTensor().numel() != 0) {
    check_probability(1 - arguments[1].toDouble());
  }
}

void check_exponential_(Arguments arguments) {
  at::Tensor self = nothing();
  distributions::exponential_impl_<NoKernel, NoGenerator>(self, arguments[1].toDouble(), {});
}

void check_geometric_(Arguments arguments) {
  at::Tensor self = nothing();
  distributions::geometric_impl_<NoKernel, NoGenerator>(self, arguments[1].toDouble(), {});
}

void check_log_normal_(Arguments arguments) {
  at::Tensor self = nothing();
  distributions::log_normal_impl_<NoKernel, NoGenerator>(self, 0, arguments[2].toDouble(), {});
}

void check_cauchy_(Arguments arguments) {
  at::Tensor self = arguments[0].toTensor();
  distributions::cauchy_impl_<NoKernel, NoGenerator>(self, 0, arguments[2].toDouble(), {});
}

const std::unordered_map<std::string_view, NumberCheck>& checks() {
  static const std::unordered_map<std::string_view, NumberCheck> by_name = {
      {"aten::normal_", check_normal_},
      {"aten::normal.Tensor_float", check_normal},
      {"aten::normal.Tensor_float_out", check_normal},
      {"aten::uniform_", check_uniform_},
      {"aten::random_.from", check_random_from},
      {"aten::random_.to", check_random_to},
      {"aten::bernoulli_.float", check_bernoulli_},
      {"aten::native_dropout", check_native_dropout},
      {"aten::exponential_", check_exponential_},
      {"aten::geometric_", check_geometric_},
      {"aten::log_normal_", check_log_normal_},
      {"aten::cauchy_", check_cauchy_},
  };
  return by_name;
}

}  // namespace

NumberCheck number_check_of(std::string_view name) {
  auto found = checks().find(name);
  return found == checks().end() ? nullptr : found->second;
}

}  // namespace torch_tpu
