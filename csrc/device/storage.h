// Storages and the tensors on them, between ATen and Values; and what the host reads and writes.
#pragma once

#include <ATen/core/Tensor.h>

#include "device/value.h"

namespace torch_tpu {

// A tensor on a Value, as a new storage.
at::Tensor make_tensor(ValuePtr value, c10::IntArrayRef sizes, c10::IntArrayRef strides);

// A tensor that was never written; it reads as zeros.
at::Tensor make_empty(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype,
                      Ordinal ordinal);

// Gives a storage another size. Its address stays; the elements that fit in both sizes are kept.
void resize_storage(c10::StorageImpl& storage, size_t bytes);

inline Cell& cell_of(const at::Tensor& tensor) {
  return Cell::of(*tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
}

// Refuses a tensor whose values can't be read: one without a storage on its device, and one whose
// storage was resized to nothing.
void check_usable(const c10::TensorImpl& tensor);

// Waits for a tpu tensor's values: a dense row-major CPU tensor. Raises failed checks.
at::Tensor to_host(const at::Tensor& tensor);

// A CPU tensor's values as a Value on a device, its dims in the tensor's memory order where the
// tensor is dense, else row-major.
ValuePtr from_host(const at::Tensor& tensor, Ordinal ordinal);

}  // namespace torch_tpu
