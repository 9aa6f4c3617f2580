#include "eager/composites.h"

#include <string_view>
#include <unordered_set>

namespace torch_tpu {

namespace {

// Every overload of these; each has a rule.
const std::unordered_set<std::string_view>& recorded() {
  static const std::unordered_set<std::string_view> names = {
      "aten::index_put",
      "aten::_index_put_impl",
      "aten::_unsafe_index",
      "aten::_unsafe_index_put",
      "aten::_unsafe_masked_index",
      "aten::_unsafe_masked_index_put_accumulate",
      "aten::index_put_",
      "aten::_index_put_impl_",
      "aten::put",
      "aten::index_fill",
      "aten::index_fill_",
      "aten::put_",
      "aten::masked_fill",
      "aten::masked_fill_",
      "aten::masked_scatter",
      "aten::masked_scatter_",
      "aten::masked_scatter_backward",
      "aten::slice_backward",
      "aten::select_backward",
      "aten::diagonal_backward",
      "aten::embedding",
      "aten::embedding_renorm",
      "aten::embedding_renorm_",
      "aten::stack",
      "aten::_stack",
      "aten::unsafe_split",
      "aten::unsafe_split_with_sizes",
      "aten::rot90",
      "aten::repeat",
      "aten::clone",
      "aten::constant_pad_nd",
      "aten::block_diag",
      "aten::slice_scatter",
      "aten::select_scatter",
      "aten::diagonal_scatter",
      "aten::as_strided_scatter",
      "aten::diag_embed",
      "aten::arange",
      "aten::linspace",
      "aten::logspace",
      "aten::eye",
      "aten::full",
      "aten::ones",
      "aten::full_like",
      "aten::ones_like",
      "aten::new_full",
      "aten::new_ones",
      "aten::scalar_tensor",
      "aten::sum",
      "aten::mean",
      "aten::any",
      "aten::all",
      "aten::norm",
      "aten::mode",
      "aten::logsumexp",
      "aten::conj_physical_",
      "aten::dist",
      "aten::binary_cross_entropy_with_logits",
      "aten::smooth_l1_loss_backward",
      "aten::huber_loss_backward",
      "aten::soft_margin_loss",
      "aten::soft_margin_loss_backward",
      "aten::affine_grid_generator",
      "aten::_euclidean_dist",
      "aten::convolution",
      "aten::convolution_backward",
      "aten::native_layer_norm",
      "aten::native_group_norm",
      "aten::mv",
      "aten::addr",
      "aten::cholesky_solve",
      "aten::linalg_lstsq",
      "aten::_linalg_check_errors",
      "aten::_grouped_mm",
      "aten::_scaled_dot_product_fused_attention_overrideable",
      "aten::_scaled_dot_product_fused_attention_overrideable_backward",
      "aten::_trilinear",
      "aten::randperm",
  };
  return names;
}

}  // namespace

bool is_recorded_composite(const c10::OperatorName& name) {
  return name.name.starts_with("aten::_foreach_") || recorded().contains(name.name);
}

}  // namespace torch_tpu
