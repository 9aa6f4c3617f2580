// Copies between the host and devices; a copy within a device is an op like any other.
#include <ATen/Functions.h>
#include <ATen/NativeFunctions.h>

#include "device/storage.h"
#include "eager/native_kernels.h"
#include "eager/recorder.h"

namespace torch_tpu {

namespace {

bool on_tpu(const at::Tensor& tensor) { return tensor.device().is_privateuseone(); }

// Whether writing all of this tensor writes all of its storage, in row-major order.
bool covers_storage(const at::Tensor& tensor) {
  return tensor.storage_offset() == 0 && tensor.is_contiguous() && !tensor.is_conj() &&
         !tensor.is_neg() && tensor.numel() * tensor.itemsize() == tensor.storage().nbytes();
}

void copy_on_device(const at::Tensor& source, const at::Tensor& destination) {
  torch::jit::Stack stack{destination, source, false};
  record("aten::copy_", "", stack);
}

void copy_from_host(const at::Tensor& source, const at::Tensor& destination) {
  at::Tensor converted = source.to(destination.scalar_type());
  const Ordinal ordinal = destination.device().index();
  if (covers_storage(destination)) {
    cell_of(destination).store(from_host(converted.expand(destination.sizes()), ordinal));
    return;
  }
  at::Tensor staged = make_tensor(from_host(converted, ordinal), converted.sizes(),
                                  converted.contiguous().strides());
  copy_on_device(staged, destination);
}

at::Tensor to_device(const at::Tensor& source, Ordinal ordinal) {
  at::Tensor dense = source.contiguous().resolve_conj().resolve_neg();
  at::Tensor moved = make_empty(dense.sizes(), dense.strides(), dense.scalar_type(), ordinal);
  if (!covers_storage(dense)) dense = dense.clone();
  if (ValuePtr value = cell_of(dense).load()) {
    PJRT_Device* device = Runtime::get().client().devices()[ordinal];
    cell_of(moved).store(c10::make_intrusive<Value>(value->buffer().to_device(device),
                                                    value->dims(), value->dtype(), ordinal));
  }
  return moved;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  if (dst.numel() == 0 || self.is_same(dst)) return dst;
  if (!on_tpu(self)) {
    copy_from_host(self, dst);
  } else if (!on_tpu(dst)) {
    at::Tensor(dst).copy_(to_host(self));
  } else if (self.device() == dst.device()) {
    copy_on_device(self, dst);
  } else {
    copy_on_device(to_device(self, dst.device().index()), dst);
  }
  return dst;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  dst.resize_(self.sizes());
  return copy_from(self, dst, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  return at::_local_scalar_dense(to_host(self));
}

bool equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.device() == other.device(),
              "Cannot compare two tensors on different devices. Got: ", self.device(), " and ",
              other.device());
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "Expected object of data type ",
              self.scalar_type(), " but got data type ", other.scalar_type(),
              " for argument 'other' in call to equal");
  return self.sizes() == other.sizes() && at::all(at::eq(self, other)).item<bool>();
}

}  // namespace

void register_copy_kernels(torch::Library& library) {
  library.impl("_copy_from", TORCH_FN(copy_from));
  library.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  library.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
  library.impl("equal", TORCH_FN(equal));
}

}  // namespace torch_tpu
