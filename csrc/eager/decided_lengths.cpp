// `out=` of ops whose length values decide: it takes the result of the functional op, because its
// size is known only once that has run.
#include <ATen/native/Resize.h>
#include <ATen/ops/masked_select.h>
#include <ATen/ops/nonzero.h>
#include <torch/library.h>

#include "eager/native_kernels.h"

namespace torch_tpu {

namespace {

at::Tensor& give(at::Tensor& out, const at::Tensor& result) {
  TORCH_CHECK(out.scalar_type() == result.scalar_type(), "Expected out tensor to have dtype ",
              result.scalar_type(), " but got ", out.scalar_type(), " instead");
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

at::Tensor& nonzero_out(const at::Tensor& self, at::Tensor& out) {
  return give(out, at::nonzero(self));
}

at::Tensor& masked_select_out(const at::Tensor& self, const at::Tensor& mask, at::Tensor& out) {
  return give(out, at::masked_select(self, mask));
}

}  // namespace

void register_decided_lengths(torch::Library& library) {
  library.impl("nonzero.out", TORCH_FN(nonzero_out));
  library.impl("masked_select.out", TORCH_FN(masked_select_out));
}

}  // namespace torch_tpu
