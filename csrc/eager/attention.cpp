// scaled_dot_product_attention asks a stub which kernel to use.
#include <ATen/SDPBackend.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>

namespace torch_tpu {

namespace {

// Whether the batches fit as they are, and the heads too or by the rules of grouped queries.
bool is_plain(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
              bool enable_gqa) {
  const int64_t dim = query.dim();
  if ((dim != 3 && dim != 4) || key.dim() != dim || value.dim() != dim) return false;
  if (key.size(0) != query.size(0) || value.size(0) != query.size(0)) return false;
  return dim == 3 || enable_gqa || (key.size(1) == query.size(1) && value.size(1) == query.size(1));
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
