#include "eager/call.h"

#include <ATen/ops/_local_scalar_dense.h>
#include <c10/core/DefaultDtype.h>

#include <algorithm>
#include <numeric>

#include "device/device.h"
#include "device/storage.h"
#include "eager/precision.h"

namespace torch_tpu {

namespace {

enum class Tag : uint8_t {
  kNone,
  kBool,
  kInt,
  kFloat,
  kComplex,
  kString,
  kDevice,
  kGenerator,
  kList,
  kTensor,
  kRuntimeNumber,
  kHostTensor,
};

constexpr size_t kFewSlots = 16;

bool is_tpu(const c10::TensorImpl& tensor) {
  return tensor.device_type() == c10::DeviceType::PrivateUse1;
}

bool has_host_tensor(const c10::IValue& list) {
  return std::ranges::any_of(list.toListRef(), [](const c10::IValue& item) {
    return item.isTensor() && item.toTensor().defined() && item.toTensor().is_cpu();
  });
}

// The dims that a Value written through this tensor would have: the tensor's own, in memory order.
void natural_dims(const c10::TensorImpl& tensor, Slot& slot) {
  slot.dtype = c10::typeMetaToScalarType(tensor.dtype());
  const size_t item = tensor.itemsize();
  const size_t storage_bytes = tensor.unsafe_storage().nbytes();
  auto sizes = tensor.sizes();
  bool whole = tensor.storage_offset() == 0 && tensor.numel() * item == storage_bytes;
  if (whole && tensor.is_contiguous()) {
    slot.dims.assign(sizes.begin(), sizes.end());
  } else if (whole && tensor.is_non_overlapping_and_dense()) {
    auto strides = tensor.strides();
    Dims order(sizes.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
    for (int64_t dim : order) slot.dims.push_back(sizes[dim]);
  } else {
    slot.dims.push_back(static_cast<int64_t>(storage_bytes / item));
  }
}

// Whether strides are what sizes alone would give, also along dims of one element, where
// is_contiguous() doesn't look: results get theirs from them.
bool is_row_major(const c10::TensorImpl& tensor) {
  auto sizes = tensor.sizes(), strides = tensor.strides();
  int64_t expected = 1;
  for (size_t dim = sizes.size(); dim-- > 0;) {
    if (strides[dim] != expected) return false;
    expected *= std::max<int64_t>(sizes[dim], 1);
  }
  return true;
}

// Whether a tensor is exactly its storage's Value.
bool sees_all(const c10::TensorImpl& tensor, const Slot& slot) {
  return tensor.storage_offset() == 0 && is_row_major(tensor) &&
         tensor.sizes() == c10::IntArrayRef(slot.dims) &&
         c10::typeMetaToScalarType(tensor.dtype()) == slot.dtype &&
         !tensor.key_set().has_any(c10::DispatchKeySet(c10::DispatchKey::Conjugate) |
                                   c10::DispatchKeySet(c10::DispatchKey::Negative));
}

}  // namespace

Call::Call(const Op& op, torch::jit::Stack& stack)
    : op(op), stack(stack), first(stack.size() - op.arguments.size()) {
  find_device();
  key.add(ordinal);
  key.add(c10::get_default_dtype_as_scalartype());
  key.add(matmul_precision());
  for (size_t i = 0; i < op.arguments.size(); ++i) add(stack[first + i], op.arguments[i]);
  clock.finish(Stage::kKey);
}

void Call::find_device() {
  c10::Device found(c10::DeviceType::CPU);
  auto look = [&](const c10::IValue& value) {
    if (!value.isTensor() || !value.toTensor().defined()) return;
    const c10::TensorImpl& tensor = *value.toTensor().unsafeGetTensorImpl();
    if (!is_tpu(tensor)) return;
    if (ordinal == -1) {
      ordinal = tensor.device().index();
    } else {
      TORCH_CHECK(ordinal == tensor.device().index(),
                  "Expected all tensors to be on the same device, but found at least two devices, ",
                  c10::Device(c10::DeviceType::PrivateUse1, ordinal), " and ", tensor.device(),
                  "!");
    }
  };
  for (size_t i = 0; i < op.arguments.size(); ++i) {
    const c10::IValue& value = argument(i);
    if (value.isTensor()) {
      look(value);
    } else if (value.isList()) {
      for (const c10::IValue& each : value.toListRef()) look(each);
    } else if (value.isDevice() && ordinal == -1) {
      ordinal = value.toDevice().index();
    }
  }
  ordinal = Runtime::get().checked(ordinal);
}

void Call::add(c10::IValue& value, const Argument& argument) {
  const bool runtime = argument.runtime;
  if (value.isTensor()) {
    if (!value.toTensor().defined()) {
      key.add(Tag::kNone);
      return;
    }
    if (argument.index && value.toTensor().is_cpu()) {
      value = value.toTensor().to(c10::Device(c10::DeviceType::PrivateUse1, ordinal));
    }
    const c10::TensorImpl& tensor = *value.toTensor().unsafeGetTensorImpl();
    if (is_tpu(tensor)) {
      add_tensor(tensor, argument.written);
    } else {
      TORCH_CHECK(
          tensor.device_type() == c10::DeviceType::CPU && tensor.dim() == 0 && !argument.written,
          "Expected all tensors to be on the same device, but found at least two devices, ",
          c10::Device(c10::DeviceType::PrivateUse1, ordinal), " and ", tensor.device(), "!");
      add_host_number(tensor);
    }
  } else if (value.isNone()) {
    key.add(Tag::kNone);
  } else if (value.isBool()) {
    if (runtime) {
      key.add(Tag::kRuntimeNumber);
      key.add(NumberKind::kBool);
      ints.push_back(value.toBool());
    } else {
      key.add(Tag::kBool);
      key.add(value.toBool());
    }
  } else if (value.isInt()) {
    if (runtime) {
      key.add(Tag::kRuntimeNumber);
      key.add(NumberKind::kInt);
      ints.push_back(value.toInt());
    } else {
      key.add(Tag::kInt);
      key.add(value.toInt());
    }
  } else if (value.isDouble()) {
    if (runtime) {
      key.add(Tag::kRuntimeNumber);
      key.add(NumberKind::kFloat);
      floats.push_back(value.toDouble());
    } else {
      key.add(Tag::kFloat);
      key.add(value.toDouble());
    }
  } else if (value.isComplexDouble()) {
    c10::complex<double> number = value.toComplexDouble();
    if (runtime) {
      key.add(Tag::kRuntimeNumber);
      key.add(NumberKind::kComplex);
      floats.push_back(number.real());
      floats.push_back(number.imag());
    } else {
      key.add(Tag::kComplex);
      key.add(number);
    }
  } else if (value.isString()) {
    key.add(Tag::kString);
    key.add_string(value.toStringRef());
  } else if (value.isList()) {
    key.add(Tag::kList);
    // Index tensors on the host are replaced, in a list of our own.
    if (argument.index && has_host_tensor(value)) value = value.toList().copy();
    auto items = value.toListRef();
    key.add(static_cast<uint32_t>(items.size()));
    for (const c10::IValue& item : items) add(const_cast<c10::IValue&>(item), argument);
  } else if (value.isDevice()) {
    key.add(Tag::kDevice);
  } else if (value.isGenerator()) {
    key.add(Tag::kGenerator);
  } else {
    TORCH_CHECK_NOT_IMPLEMENTED(false, op.name, ": argument ", argument.name, " of type ",
                                value.tagKind(), " is not supported on tpu");
  }
}

void Call::add_host_number(const c10::TensorImpl& tensor) {
  auto dtype = c10::typeMetaToScalarType(tensor.dtype());
  key.add(Tag::kHostTensor);
  key.add(dtype);
  key.add(tensor.is_wrapped_number());
  at::Scalar number = at::_local_scalar_dense(at::Tensor(
      c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(const_cast<c10::TensorImpl*>(&tensor))));
  if (number.isComplex()) {
    auto value = number.toComplexDouble();
    floats.push_back(value.real());
    floats.push_back(value.imag());
  } else if (number.isFloatingPoint()) {
    floats.push_back(number.toDouble());
  } else if (number.isBoolean()) {
    ints.push_back(number.toBool());
  } else {
    ints.push_back(number.type() == c10::ScalarType::UInt64
                       ? static_cast<int64_t>(number.toUInt64())
                       : number.toLong());
  }
}

uint32_t Call::slot_of(const c10::TensorImpl& tensor) const {
  const Cell* cell = &Cell::of(*tensor.unsafe_storage().unsafeGetStorageImpl());
  if (slots.size() <= kFewSlots) {
    for (uint32_t i = 0; i < slots.size(); ++i) {
      if (slots[i].cell == cell) return i;
    }
    return static_cast<uint32_t>(slots.size());
  }
  auto found = slot_by_cell_.find(cell);
  return found == slot_by_cell_.end() ? static_cast<uint32_t>(slots.size()) : found->second;
}

uint32_t Call::add_slot(const c10::TensorImpl& tensor) {
  Slot slot;
  slot.cell = &Cell::of(*tensor.unsafe_storage().unsafeGetStorageImpl());
  slot.value = slot.cell->load();
  if (slot.value) {
    slot.value->check_not_failed();
    slot.dims = slot.value->dims();
    slot.dtype = slot.value->dtype();
  } else {
    natural_dims(tensor, slot);
  }
  key.add(slot.value != nullptr);
  key.add(slot.dtype);
  key.add_ints(slot.dims);
  slots.push_back(std::move(slot));
  const uint32_t place = static_cast<uint32_t>(slots.size() - 1);
  if (slots.size() == kFewSlots + 1) {
    for (uint32_t i = 0; i <= place; ++i) slot_by_cell_.emplace(slots[i].cell, i);
  } else if (slots.size() > kFewSlots) {
    slot_by_cell_.emplace(slots[place].cell, place);
  }
  return place;
}

void Call::add_tensor(const c10::TensorImpl& tensor, bool written) {
  check_usable(tensor);
  key.add(Tag::kTensor);
  uint32_t place = slot_of(tensor);
  key.add(place);
  if (place == slots.size()) add_slot(tensor);
  slots[place].written |= written;
  const bool identity = sees_all(tensor, slots[place]);
  key.add(identity);
  if (!identity) {
    key.add(c10::typeMetaToScalarType(tensor.dtype()));
    key.add_ints(tensor.sizes());
    key.add_ints(tensor.strides());
    key.add(tensor.storage_offset());
    key.add(tensor.key_set().has(c10::DispatchKey::Conjugate));
    key.add(tensor.key_set().has(c10::DispatchKey::Negative));
  }
}

c10::SmallVector<uint32_t, 4> Call::donated() const {
  c10::SmallVector<uint32_t, 4> donated;
  uint32_t input = 0;
  for (const Slot& slot : slots) {
    if (!slot.value) continue;
    if (slot.written && slot.value.use_count() == 2) donated.push_back(input);  // the cell's, ours
    ++input;
  }
  return donated;
}

void Call::draw_random() {
  std::optional<at::Generator> generator;
  if (op.generator >= 0 && argument(op.generator).isGenerator()) {
    generator = argument(op.generator).toGenerator();
  }
  auto [seed, offset] = next_random(generator, ordinal);
  ints.push_back(static_cast<int64_t>(seed));
  ints.push_back(static_cast<int64_t>(offset));
}

}  // namespace torch_tpu
