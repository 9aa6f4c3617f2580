// Kernels that move no values: factories, views, storage surgery. They never make a program.
#include "eager/native_kernels.h"

#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include "device/storage.h"

namespace torch_tpu {

namespace {

Ordinal ordinal_of(std::optional<c10::Device> device) {
  return Runtime::get().checked(device.has_value() ? device->index() : Ordinal(-1));
}

void check_sizes(c10::IntArrayRef sizes) {
  for (int64_t size : sizes) {
    TORCH_CHECK(size >= 0, "Trying to create tensor with negative dimension ", size, ": ", sizes);
  }
}

at::Tensor empty(c10::IntArrayRef size, std::optional<c10::ScalarType> dtype,
                 std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                 std::optional<bool> pin_memory, std::optional<c10::MemoryFormat> memory_format) {
  TORCH_CHECK(layout.value_or(c10::kStrided) == c10::kStrided,
              "tpu tensors are strided, got layout ", *layout);
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
  check_sizes(size);
  Dims strides(size.size());
  int64_t stride = 1;
  for (size_t i = size.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<int64_t>(size[i], 1);
  }
  at::Tensor tensor = make_empty(size, strides, c10::dtype_or_default(dtype), ordinal_of(device));
  if (memory_format.has_value() && *memory_format != c10::MemoryFormat::Contiguous) {
    tensor.unsafeGetTensorImpl()->empty_tensor_restride(*memory_format);
  }
  return tensor;
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride,
                         std::optional<c10::ScalarType> dtype, std::optional<c10::Layout>,
                         std::optional<c10::Device> device, std::optional<bool> pin_memory) {
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
  check_sizes(size);
  return make_empty(size, stride, c10::dtype_or_default(dtype), ordinal_of(device));
}

// What forward-mode AD takes for a tangent that is zero; an unwritten storage reads as zeros.
at::Tensor efficient_zero_tensor(c10::IntArrayRef size, std::optional<c10::ScalarType> dtype,
                                 std::optional<c10::Layout> layout,
                                 std::optional<c10::Device> device, std::optional<bool>) {
  at::Tensor zeros = empty(size, dtype, layout, device, false, std::nullopt);
  auto storage = zeros.unsafeGetTensorImpl()->unsafe_storage();
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage),
      c10::DispatchKeySet({c10::DispatchKey::PrivateUse1, c10::DispatchKey::ZeroTensor}),
      zeros.dtype());
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  return tensor;
}

void grow_storage(const at::Tensor& tensor) {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  auto* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  size_t bytes = tensor.numel() == 0
                     ? 0
                     : at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(),
                                                        tensor.itemsize(), tensor.storage_offset());
  if (bytes <= storage->nbytes()) return;
  TORCH_CHECK(storage->resizable(), "Trying to resize storage that is not resizable");
  resize_storage(*storage, bytes);
}

const at::Tensor& resize_(const at::Tensor& self, c10::IntArrayRef size,
                          std::optional<c10::MemoryFormat> memory_format) {
  check_sizes(size);
  if (self.sizes() != size) {
    self.unsafeGetTensorImpl()->set_sizes_contiguous(size);
    grow_storage(self);
  }
  if (memory_format.has_value()) {
    TORCH_CHECK(*memory_format != c10::MemoryFormat::Preserve, "Unsupported memory format",
                *memory_format);
    self.unsafeGetTensorImpl()->empty_tensor_restride(*memory_format);
  }
  return self;
}

at::Tensor& set_storage_offset(at::Tensor& self, c10::Storage source, int64_t storage_offset,
                               c10::IntArrayRef size, c10::IntArrayRef stride) {
  TORCH_CHECK(source.device_type() == c10::DeviceType::PrivateUse1,
              "Expected a tpu storage, got one on ", source.device());
  at::native::checkSetStorage(self, source, storage_offset, size, stride);
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(storage_offset);
  if (stride.data() == nullptr) {
    impl->set_sizes_contiguous(size);
  } else {
    impl->set_sizes_and_strides(size, stride);
  }
  grow_storage(self);
  return self;
}

at::Tensor& set_storage(at::Tensor& self, c10::Storage source) {
  int64_t length = static_cast<int64_t>(source.nbytes() / self.itemsize());
  return set_storage_offset(self, std::move(source), 0, {length}, c10::IntArrayRef());
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  return self.is_same(source) ? self
                              : set_storage_offset(self, source.storage(), source.storage_offset(),
                                                   source.sizes(), source.strides());
}

at::Tensor& set_nothing(at::Tensor& self) {
  at::Tensor nothing = make_empty({0}, {1}, self.scalar_type(), self.device().index());
  return set_storage_offset(self, nothing.storage(), 0, {0}, c10::IntArrayRef());
}

// Values free themselves when the last program that reads them is done.
void record_stream(at::Tensor&, c10::Stream) {}

}  // namespace

void register_native_kernels(torch::Library& library) {
  library.impl("empty.memory_format", TORCH_FN(empty));
  library.impl("empty_strided", TORCH_FN(empty_strided));
  library.impl("_efficientzerotensor", TORCH_FN(efficient_zero_tensor));
  library.impl("resize_", TORCH_FN(resize_));
  library.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  library.impl("view", TORCH_FN(at::native::view));
  library.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  library.impl("unfold", TORCH_FN(at::native::unfold));
  library.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  library.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  library.impl("view.dtype", TORCH_FN(at::native::view_dtype));
  library.impl("set_.source_Storage", TORCH_FN(set_storage));
  library.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage_offset));
  library.impl("set_.source_Tensor", TORCH_FN(set_tensor));
  library.impl("set_", TORCH_FN(set_nothing));
  library.impl("is_set_to", TORCH_FN(at::native::is_set_to));
  library.impl("record_stream", TORCH_FN(record_stream));
}

}  // namespace torch_tpu
