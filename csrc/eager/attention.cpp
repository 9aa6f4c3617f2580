// scaled_dot_product_attention asks a stub which kernel to use.
#include <ATen/SDPBackend.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>

namespace torch_tpu {

namespace {

// The fused op is one program; its rule covers every mask, scale and head count.
int64_t choose_attention(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                         const std::optional<at::Tensor>&, double, bool, std::optional<double>,
                         bool) {
  return static_cast<int64_t>(at::SDPBackend::overrideable);
}

}  // namespace

}  // namespace torch_tpu

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &torch_tpu::choose_attention)
}  // namespace at::native
