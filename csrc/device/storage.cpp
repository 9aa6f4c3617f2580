#include "device/storage.h"

#include <ATen/Functions.h>

#include "device/counters.h"
#include "device/device.h"
#include "device/gil.h"

namespace torch_tpu {

namespace {

constexpr auto kTpu = c10::DeviceType::PrivateUse1;

// Below this many bytes a strided read copies the whole Value and picks on the host: no program
// per offset for `x[i].item()` in a loop.
constexpr size_t kReadWhole = 1 << 20;

at::Tensor wrap(c10::DataPtr data, size_t bytes, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                c10::ScalarType dtype) {
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), c10::SymInt(static_cast<int64_t>(bytes)),
      std::move(data), allocator(), /*resizable=*/true);
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return tensor;
}

void read(const Value& value, void* host) {
  ReleaseGil no_gil;
  counters().host_syncs.add(1);
  try {
    value.buffer().to_host(host, value.bytes()).wait();
  } catch (const pjrt::Error& error) {
    TORCH_CHECK(false, "TPU error while a value was read: ", error.what());
  }
}

at::Tensor host_tensor(c10::IntArrayRef sizes, c10::ScalarType dtype) {
  return at::detail::empty_cpu(sizes, dtype);
}

int64_t numel_of(const Value& value) { return c10::multiply_integers(value.dims()); }

}  // namespace

at::Tensor make_tensor(ValuePtr value, c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  const Ordinal ordinal = value->ordinal();
  const c10::ScalarType dtype = value->dtype();
  // A Value of a length that values decided is longer than what the tensor shows of it.
  const size_t bytes = at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(dtype));
  return wrap(Cell::allocate(ordinal, std::move(value)), bytes, sizes, strides, dtype);
}

at::Tensor make_empty(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype,
                      Ordinal ordinal) {
  element_type(dtype);  // refuses what XLA can't hold
  size_t bytes = at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(dtype));
  return wrap(Cell::allocate(ordinal), bytes, sizes, strides, dtype);
}

void resize_storage(c10::StorageImpl& storage, size_t bytes) {
  Cell& cell = Cell::of(storage);
  ValuePtr value = bytes == 0 ? ValuePtr() : cell.load();
  if (value) {
    const int64_t item = static_cast<int64_t>(c10::elementSize(value->dtype()));
    const int64_t before = numel_of(*value), after = static_cast<int64_t>(bytes) / item;
    const int64_t kept = std::min(before, after);
    const c10::ScalarType dtype = value->dtype();
    at::Tensor old = make_tensor(std::move(value), {before}, {1});
    at::Tensor resized = make_empty({after}, {1}, dtype, cell.ordinal);
    resized.narrow(0, 0, kept).copy_(old.narrow(0, 0, kept));
    value = cell_of(resized).load();
  }
  cell.store(std::move(value));
  storage.set_nbytes(bytes);
}

void check_usable(const c10::TensorImpl& tensor) {
  TORCH_CHECK(
      tensor.has_storage() && tensor.unsafe_storage().device_type() == c10::DeviceType::PrivateUse1,
      "torch_tpu: got a tensor that says it is on ", tensor.device(),
      " but has no storage there (a fake or meta tensor reached a device kernel)");
  TORCH_CHECK(tensor.unsafe_storage().nbytes() != 0 || tensor.numel() == 0,
              "The tensor has a non-zero number of elements, but its data is not allocated yet: "
              "its storage was resized to nothing");
}

at::Tensor to_host(const at::Tensor& tensor) {
  check_usable(*tensor.unsafeGetTensorImpl());
  const Ordinal ordinal = tensor.device().index();
  ValuePtr value = cell_of(tensor).load();
  at::Tensor host;
  if (!value) {
    host =
        at::zeros(tensor.sizes(), at::TensorOptions().dtype(tensor.scalar_type()).device(at::kCPU));
  } else if (tensor.numel() == 0) {
    host = host_tensor(tensor.sizes(), tensor.scalar_type());
  } else if (tensor.is_contiguous() && tensor.numel() == numel_of(*value) &&
             tensor.scalar_type() == value->dtype() && !tensor.is_conj() && !tensor.is_neg()) {
    host = host_tensor(tensor.sizes(), tensor.scalar_type());
    read(*value, host.mutable_data_ptr());
  } else if (value->bytes() <= kReadWhole || tensor.numel() * 4 >= numel_of(*value)) {
    at::Tensor whole = host_tensor({numel_of(*value)}, value->dtype());
    read(*value, whole.mutable_data_ptr());
    host = whole.view(tensor.scalar_type())
               .as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
    if (tensor.is_conj()) host = at::conj(host);
    if (tensor.is_neg()) host = at::neg(host);
    host = host.resolve_conj().contiguous();
  } else {
    return to_host(at::clone(tensor, at::MemoryFormat::Contiguous));
  }
  Runtime::get().raise_failed_checks(ordinal);
  return host;
}

ValuePtr from_host(const at::Tensor& tensor, Ordinal ordinal) {
  at::Tensor dense = tensor.resolve_conj().resolve_neg().contiguous();
  const c10::ScalarType dtype = dense.scalar_type();
  pjrt::Buffer buffer = Runtime::get().client().from_host(
      dense.const_data_ptr(), element_type(dtype), dense.sizes(), ordinal);
  return c10::make_intrusive<Value>(std::move(buffer), dense.sizes(), dtype, ordinal);
}

}  // namespace torch_tpu
