// scaled_dot_product_attention asks a stub which kernel to use.
#include <ATen/SDPBackend.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>

namespace torch_tpu {

namespace {

// Whether there are batches and heads, the batches fit as they are, and the heads too or by the
// rules of grouped queries. Sizes that torch.compile left open are compared as such, which doesn't
// fix them.
bool is_plain(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
              bool enable_gqa) {
  if (query.dim() != 4 || key.dim() != 4 || value.dim() != 4) return false;
  auto same = [&](int64_t place) {
    return TORCH_GUARD_OR_FALSE(key.sym_size(place).sym_eq(query.sym_size(place))) &&
           TORCH_GUARD_OR_FALSE(value.sym_size(place).sym_eq(query.sym_size(place)));
  };
  return same(0) && (enable_gqa || same(1));
}

// The fused op is one program; its rule covers every mask, scale and head count. What broadcasts,
// and what PyTorch refuses, is left to PyTorch's own composition.
int64_t choose_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const std::optional<at::Tensor>&, double, bool, std::optional<double>,
                         bool enable_gqa) {
  const bool plain = is_plain(query, key, value, enable_gqa);
  return static_cast<int64_t>(plain ? at::SDPBackend::overrideable : at::SDPBackend::math);
}

}  // namespace

}  // namespace torch_tpu

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &torch_tpu::choose_attention)
}  // namespace at::native
