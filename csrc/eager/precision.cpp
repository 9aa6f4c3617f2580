#include "eager/precision.h"

namespace torch_tpu {

at::Float32MatmulPrecision matmul_precision() {
  using at::Float32Backend;
  using at::Float32Op;
  using at::Float32Precision;
  const at::Context& context = at::globalContext();
  Float32Precision asked = context.float32Precision(Float32Backend::CUDA, Float32Op::MATMUL);
  // CUDA knows no bfloat16 here, and would ignore it.
  if (asked == Float32Precision::NONE) {
    asked = context.float32Precision(Float32Backend::GENERIC, Float32Op::ALL);
  }
  if (asked == Float32Precision::BF16) return at::Float32MatmulPrecision::MEDIUM;
  if (asked != Float32Precision::TF32) return at::Float32MatmulPrecision::HIGHEST;
  // "medium" is TF32 to CUDA and bfloat16 to the CPU.
  const auto cpu = context.float32Precision(Float32Backend::MKLDNN, Float32Op::MATMUL);
  return cpu == Float32Precision::BF16 ? at::Float32MatmulPrecision::MEDIUM
                                       : at::Float32MatmulPrecision::HIGH;
}

}  // namespace torch_tpu
