// Nested tensors of layout torch.strided: PyTorch's own kernels, which are made of ops on the
// buffer and on the parts. Jagged ones need none of this, but attention, which they take here.
#include <ATen/NativeFunctions.h>
#include <torch/library.h>

#include "eager/native_kernels.h"

namespace torch_tpu {

namespace {

// nn.TransformerEncoder asks it before it packs rows of several lengths into a nested tensor: here
// they stay padded, in a program that serves all lengths.
bool mask_left_aligned(const at::Tensor&, const at::Tensor&) { return false; }

// PyTorch's kernel corrupts the heap for every other dim, on the CPU too (2.13).
at::Tensor select(const at::Tensor& self, int64_t dim, int64_t index) {
  TORCH_CHECK_NOT_IMPLEMENTED(c10::maybe_wrap_dim(dim, self.dim()) == 0,
                              "select() of a strided nested tensor on tpu takes dim 0 alone: make "
                              "it with layout=torch.jagged");
  return at::native::select_nested(self, dim, index);
}

}  // namespace

void register_nested_kernels(torch::Library& nested, torch::Library& dense) {
  dense.impl("_nested_from_padded", TORCH_FN(at::native::nested_from_padded_generic));
  dense.impl("_nested_tensor_from_mask_left_aligned", TORCH_FN(mask_left_aligned));
  dense.impl("_nested_view_from_buffer", TORCH_FN(at::native::_nested_view_from_buffer));
  nested.impl("_nested_select_backward", TORCH_FN(at::native::_nested_select_backward_symint));
  nested.impl("_nested_tensor_size", TORCH_FN(at::native::_nested_tensor_size));
  nested.impl("_nested_tensor_storage_offsets",
              TORCH_FN(at::native::_nested_tensor_storage_offsets));
  nested.impl("_nested_tensor_strides", TORCH_FN(at::native::_nested_tensor_strides));
  nested.impl("_safe_softmax", TORCH_FN(at::native::_safe_softmax));
  nested.impl("_softmax", TORCH_FN(at::native::softmax_nested));
  nested.impl("_softmax_backward_data", TORCH_FN(at::native::nested_softmax_backward));
  nested.impl("_to_copy", TORCH_FN(at::native::_to_copy_nested));
  nested.impl("abs", TORCH_FN(at::native::NestedTensor_abs));
  nested.impl("abs_", TORCH_FN(at::native::NestedTensor_abs_));
  nested.impl("add.Tensor", TORCH_FN(at::native::NestedTensor_add_Tensor));
  nested.impl("add_.Tensor", TORCH_FN(at::native::NestedTensor_add__Tensor));
  nested.impl("alias", TORCH_FN(at::native::alias_nested));
  nested.impl("all.dim", TORCH_FN(at::native::NestedTensor_all));
  nested.impl("bmm", TORCH_FN(at::native::bmm_nested));
  nested.impl("cat", TORCH_FN(at::native::cat_nested));
  nested.impl("chunk", TORCH_FN(at::native::chunk_nested_tensor));
  nested.impl("clone", TORCH_FN(at::native::clone_nested));
  nested.impl("copy_", TORCH_FN(at::native::copy_nested_));
  nested.impl("cos", TORCH_FN(at::native::NestedTensor_cos));
  nested.impl("detach", TORCH_FN(at::native::detach));
  nested.impl("div.Scalar", TORCH_FN(at::native::NestedTensor_div_Scalar));
  nested.impl("div.Tensor", TORCH_FN(at::native::NestedTensor_div_Tensor));
  nested.impl("empty_like", TORCH_FN(at::native::empty_like_nested));
  nested.impl("eq.Scalar", TORCH_FN(at::native::eq_scalar_nested));
  nested.impl("fill_.Scalar", static_cast<at::Tensor& (*)(at::Tensor&, const at::Scalar&)>(
                                  at::native::fill_nested_));
  nested.impl("fill_.Tensor", static_cast<at::Tensor& (*)(at::Tensor&, const at::Tensor&)>(
                                  at::native::fill_nested_));
  nested.impl("ge.Scalar", TORCH_FN(at::native::ge_scalar_nested));
  nested.impl("gelu", TORCH_FN(at::native::NestedTensor_gelu));
  nested.impl("gelu_", TORCH_FN(at::native::NestedTensor_gelu_));
  nested.impl("gelu_backward", TORCH_FN(at::native::gelu_backwards_nested));
  nested.impl("gt.Scalar", TORCH_FN(at::native::gt_scalar_nested));
  nested.impl("is_same_size", TORCH_FN(at::native::nested_is_same_size));
  nested.impl("isinf", TORCH_FN(at::native::NestedTensor_isinf));
  nested.impl("isnan", TORCH_FN(at::native::NestedTensor_isnan));
  nested.impl("isneginf", TORCH_FN(at::native::NestedTensor_isneginf));
  nested.impl("isposinf", TORCH_FN(at::native::NestedTensor_isposinf));
  nested.impl("linear", TORCH_FN(at::native::nested_linear));
  nested.impl("linear_backward", TORCH_FN(at::native::nested_linear_backward));
  nested.impl("logical_not", TORCH_FN(at::native::NestedTensor_logical_not));
  nested.impl("logical_not_", TORCH_FN(at::native::NestedTensor_logical_not_));
  nested.impl("masked_fill.Scalar", TORCH_FN(at::native::NestedTensor_masked_fill));
  nested.impl("matmul", TORCH_FN(at::native::matmul_nested));
  nested.impl("matmul.out", TORCH_FN(at::native::matmul_out_nested));
  nested.impl("matmul_backward", TORCH_FN(at::native::matmul_backward_nested));
  nested.impl("mul.Scalar", TORCH_FN(at::native::NestedTensor_mul_Scalar));
  nested.impl("mul.Tensor", TORCH_FN(at::native::NestedTensor_mul_Tensor));
  nested.impl("mul_.Scalar", TORCH_FN(at::native::NestedTensor_mul__Scalar));
  nested.impl("mul_.Tensor", TORCH_FN(at::native::NestedTensor_mul__Tensor));
  nested.impl("native_dropout", TORCH_FN(at::native::native_dropout_nested));
  nested.impl("native_dropout_backward", TORCH_FN(at::native::native_dropout_backward));
  nested.impl("neg", TORCH_FN(at::native::NestedTensor_neg));
  nested.impl("neg_", TORCH_FN(at::native::NestedTensor_neg_));
  nested.impl("normal_", TORCH_FN(at::native::normal_nested_));
  nested.impl("ones_like", TORCH_FN(at::native::ones_like));
  nested.impl("relu", TORCH_FN(at::native::NestedTensor_relu));
  nested.impl("relu_", TORCH_FN(at::native::NestedTensor_relu_));
  nested.impl("select.int", TORCH_FN(select));
  nested.impl("sgn", TORCH_FN(at::native::NestedTensor_sgn));
  nested.impl("sgn_", TORCH_FN(at::native::NestedTensor_sgn_));
  nested.impl("silu", TORCH_FN(at::native::NestedTensor_silu));
  nested.impl("silu_", TORCH_FN(at::native::NestedTensor_silu_));
  nested.impl("silu_backward", TORCH_FN(at::native::silu_backward_nested));
  nested.impl("sin", TORCH_FN(at::native::NestedTensor_sin));
  nested.impl("split_with_sizes", TORCH_FN(at::native::split_with_sizes_nested));
  nested.impl("sqrt", TORCH_FN(at::native::NestedTensor_sqrt));
  nested.impl("squeeze", TORCH_FN(at::native::squeeze_nested));
  nested.impl("squeeze.dim", static_cast<at::Tensor (*)(const at::Tensor&, int64_t)>(
                                 at::native::squeeze_dim_nested));
  nested.impl("squeeze.dims", static_cast<at::Tensor (*)(const at::Tensor&, at::IntArrayRef)>(
                                  at::native::squeeze_dim_nested));
  nested.impl("sub.Tensor", TORCH_FN(at::native::NestedTensor_sub_Tensor));
  nested.impl("tanh", TORCH_FN(at::native::NestedTensor_tanh));
  nested.impl("tanh_", TORCH_FN(at::native::NestedTensor_tanh_));
  nested.impl("threshold_backward", TORCH_FN(at::native::threshold_backwards_nested));
  nested.impl("to_padded_tensor", TORCH_FN(at::native::NestedTensor_to_padded_tensor_generic));
  nested.impl("transpose.int", TORCH_FN(at::native::transpose_nested));
  nested.impl("unbind.int", TORCH_FN(at::native::NestedTensor_unbind));
  nested.impl("unsqueeze", TORCH_FN(at::native::unsqueeze_nested));
  nested.impl("values", TORCH_FN(at::native::values_nested));
  nested.impl("view", TORCH_FN(at::native::view_nested));
  nested.impl("where.self", TORCH_FN(at::native::NestedTensor_where));
  nested.impl("where.self_out", TORCH_FN(at::native::NestedTensor_where_out));
  nested.impl("zero_", TORCH_FN(at::native::zero_nested_));
}

}  // namespace torch_tpu
