#include "eager/number_checks.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/OpMathType.h>
#include <ATen/native/DistributionTemplates.h>
#include <ATen/native/TypeProperties.h>

#include <cmath>
#include <limits>
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

// Only those that write a number to a tensor are looked at, not those that scale by one (alpha,
// beta): these run too often for what would be found.
// ATen's kernels convert a number to the dtype they write; one that the dtype can't hold is
// refused.
void check_fits(const c10::IValue& number, c10::ScalarType dtype) {
  const at::Scalar scalar = number.toScalar();
  AT_DISPATCH_V2(dtype, "check_fits", AT_WRAP([&] { static_cast<void>(scalar.to<scalar_t>()); }),
                 AT_EXPAND(AT_ALL_TYPES), AT_EXPAND(AT_COMPLEX_TYPES), AT_EXPAND(AT_FLOAT8_TYPES),
                 AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), c10::kBool, c10::kHalf, c10::kBFloat16,
                 c10::kComplexHalf);
}

// The numbers at these places are written to tensors of the first argument's dtype.
template <size_t... places>
void check_written(Arguments arguments) {
  const c10::ScalarType dtype = arguments[0].toTensor().scalar_type();
  (check_fits(arguments[places], dtype), ...);
}

// Factories, whose dtype is an argument; without one it is inferred and holds the numbers.
template <size_t dtype_place, size_t... places>
void check_created(Arguments arguments) {
  if (arguments[dtype_place].isNone()) return;
  const c10::ScalarType dtype = arguments[dtype_place].toScalarType();
  (check_fits(arguments[places], dtype), ...);
}

template <size_t place, size_t dtype_place>
void check_like(Arguments arguments) {
  const c10::IValue& dtype = arguments[dtype_place];
  check_fits(arguments[place],
             dtype.isNone() ? arguments[0].toTensor().scalar_type() : dtype.toScalarType());
}

template <size_t... places>
void check_clamp(Arguments arguments) {
  at::native::ResultTypeState state;
  state = at::native::update_result_type_state(arguments[0].toTensor(), state);
  auto promote = [&](const c10::IValue& bound) {
    if (!bound.isNone()) state = at::native::update_result_type_state(bound.toScalar(), state);
  };
  (promote(arguments[places]), ...);
  const c10::ScalarType dtype = at::native::result_type(state);
  auto check = [&](const c10::IValue& bound) {
    if (!bound.isNone()) check_fits(bound, dtype);
  };
  (check(arguments[places]), ...);
}

void check_hardtanh(Arguments arguments) {
  if (arguments[0].toTensor().scalar_type() == c10::kByte) {
    TORCH_CHECK(arguments[1].toScalar().toLong() >= 0 && arguments[2].toScalar().toLong() >= 0,
                "cannot do hardtanh on an unsigned type with negative limits");
  }
  check_written<1, 2>(arguments);
}

void check_smooth_l1_loss(Arguments arguments) {
  TORCH_CHECK(arguments[3].toDouble() >= 0,
              "smooth_l1_loss does not support negative values for beta.");
}

void check_huber_loss(Arguments arguments) {
  TORCH_CHECK(arguments[3].toDouble() > 0,
              "huber_loss does not support non-positive values for delta.");
}

void check_leaky_relu_backward(Arguments arguments) {
  const at::Scalar slope = arguments[2].toScalar();
  TORCH_CHECK(!arguments[3].toBool() || slope.toDouble() >= 0.0,
              "In-place leakyReLu backward calculation is triggered with a negative slope which is "
              "not supported. This is caused by calling in-place forward function with a negative "
              "slope, please call out-of-place version instead. File an issue at "
              "https://github.com/pytorch/pytorch if you do require supporting in-place leakRelu "
              "backward calculation with negative slope");
}

void check_elu_backward(Arguments arguments) {
  const at::Scalar slope = arguments[1].toScalar();
  TORCH_CHECK(!arguments[4].toBool() || slope.toDouble() >= 0.0,
              "In-place elu backward calculation is triggered with a negative slope which is not "
              "supported. This is caused by calling in-place forward function with a negative "
              "slope, please call out-of-place version instead.");
}

void check_softshrink(Arguments arguments) {
  const c10::ScalarType dtype = arguments[0].toTensor().scalar_type();
  const double limit = arguments[1].toScalar().toDouble();
  AT_DISPATCH_FLOATING_TYPES_AND2(c10::kHalf, c10::kBFloat16, dtype, "softshrink_check", [&] {
    const double largest = std::numeric_limits<scalar_t>::max();
    TORCH_CHECK(limit >= 0 && limit <= largest, "lambda must be in range [0, ", largest,
                "] for input dtype ", dtype, ", but found ", limit);
  });
}

void check_histc(Arguments arguments) {
  const double least = arguments[2].toScalar().toDouble();
  const double most = arguments[3].toScalar().toDouble();
  if (least == most) return;  // the range is the values' own
  TORCH_CHECK(std::isfinite(least) && std::isfinite(most), "torch.histc: range of [", least, ", ",
              most, "] is not finite");
  TORCH_CHECK(least < most, "torch.histc: max must be larger than min");
}

void check_threshold(Arguments arguments) {
  // Its kernel computes in a wider dtype than the one it writes.
  const c10::ScalarType dtype = at::toOpMathType(arguments[0].toTensor().scalar_type());
  check_fits(arguments[1], dtype);
  check_fits(arguments[2], dtype);
}

void check_fake_quantize(Arguments arguments) {
  const int64_t zero_point = arguments[2].toInt();
  const int64_t least = arguments[3].toInt(), most = arguments[4].toInt();
  if (least > most) return;  // part of the key: PyTorch's own refusal comes with the metadata
  TORCH_CHECK(zero_point >= least && zero_point <= most,
              "`zero_point` must be between `quant_min` and `quant_max`.");
}

void check_renorm(Arguments arguments) {
  const double limit = arguments[3].toScalar().toDouble();
  TORCH_CHECK(limit >= 0.0, "renorm: expected maxnorm to be >= 0 but got ", limit);
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
      {"aten::fill_.Scalar", check_written<1>},
      {"aten::masked_fill.Scalar", check_written<2>},
      {"aten::masked_fill_.Scalar", check_written<2>},
      {"aten::index_fill.int_Scalar", check_written<3>},
      {"aten::index_fill_.int_Scalar", check_written<3>},
      {"aten::scatter.value", check_written<3>},
      {"aten::scatter_.value", check_written<3>},
      {"aten::scatter.value_reduce", check_written<3>},
      {"aten::scatter_.value_reduce", check_written<3>},
      {"aten::constant_pad_nd", check_written<2>},
      {"aten::threshold", check_threshold},
      {"aten::threshold_", check_threshold},
      {"aten::softshrink", check_softshrink},
      {"aten::histc", check_histc},
      {"aten::full_like", check_like<1, 2>},
      {"aten::new_full", check_like<2, 3>},
      {"aten::full", check_created<2, 1>},
      {"aten::scalar_tensor", check_created<1, 0>},
      {"aten::linspace", check_created<3, 0, 1>},
      {"aten::clamp", check_clamp<1, 2>},
      {"aten::clamp_", check_clamp<1, 2>},
      {"aten::clamp_min", check_clamp<1>},
      {"aten::clamp_min_", check_clamp<1>},
      {"aten::clamp_max", check_clamp<1>},
      {"aten::clamp_max_", check_clamp<1>},
      {"aten::hardtanh", check_hardtanh},
      {"aten::hardtanh_", check_hardtanh},
      {"aten::smooth_l1_loss", check_smooth_l1_loss},
      {"aten::huber_loss", check_huber_loss},
      {"aten::leaky_relu_backward", check_leaky_relu_backward},
      {"aten::elu_backward", check_elu_backward},
      {"aten::fake_quantize_per_tensor_affine_cachemask", check_fake_quantize},
      {"aten::renorm", check_renorm},
      {"aten::renorm_", check_renorm},
  };
  return by_name;
}

}  // namespace

NumberCheck number_check_of(std::string_view name) {
  auto found = checks().find(name);
  return found == checks().end() ? nullptr : found->second;
}

}  // namespace torch_tpu
