#include "device/value.h"

#include <c10/util/Exception.h>

#include <array>

namespace torch_tpu {

pjrt::ElementType element_type(c10::ScalarType dtype) {
  using c10::ScalarType;
  // The numbers are PJRT_Buffer_Type's.
  switch (dtype) {
    case ScalarType::Bool:
      return 1;
    case ScalarType::Char:
      return 2;
    case ScalarType::Short:
      return 3;
    case ScalarType::Int:
      return 4;
    case ScalarType::Long:
      return 5;
    case ScalarType::Byte:
      return 6;
    case ScalarType::UInt16:
      return 7;
    case ScalarType::UInt32:
      return 8;
    case ScalarType::UInt64:
      return 9;
    case ScalarType::Half:
      return 10;
    case ScalarType::Float:
      return 11;
    case ScalarType::Double:
      return 12;
    case ScalarType::BFloat16:
      return 13;
    case ScalarType::ComplexFloat:
      return 14;
    case ScalarType::ComplexDouble:
      return 15;
    case ScalarType::Float8_e5m2:
      return 16;
    case ScalarType::Float8_e4m3fn:
      return 17;
    case ScalarType::Float8_e5m2fnuz:
      return 19;
    case ScalarType::Float8_e4m3fnuz:
      return 20;
    default:
      TORCH_CHECK_TYPE(false, "tpu tensors can't hold ", dtype, ": XLA has no such type");
  }
}

Value::Value(pjrt::Buffer buffer, c10::IntArrayRef dims, c10::ScalarType dtype, Ordinal ordinal)
    : dims_(dims.begin(), dims.end()),
      dtype_(dtype),
      ordinal_(ordinal),
      buffer_(std::move(buffer)) {
  bytes_ = c10::elementSize(dtype);
  for (int64_t dim : dims) bytes_ *= dim;
  MemoryUse::of(ordinal).allocated(static_cast<int64_t>(bytes_));
}

Value::~Value() { MemoryUse::of(ordinal_).freed(static_cast<int64_t>(bytes_)); }

c10::DataPtr Cell::allocate(Ordinal ordinal, ValuePtr value) {
  auto cell = std::make_unique<Cell>(ordinal);
  cell->value_ = std::move(value);
  Cell* address = cell.release();
  auto free_cell = [](void* cell) { std::unique_ptr<Cell>(static_cast<Cell*>(cell)); };
  return {address, address, free_cell, c10::Device(c10::DeviceType::PrivateUse1, ordinal)};
}

MemoryUse& MemoryUse::of(Ordinal ordinal) {
  static std::array<MemoryUse, 128> devices;
  return devices[ordinal];
}

void MemoryUse::allocated(int64_t bytes) {
  int64_t now = bytes_in_use.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t peak = peak_bytes.load(std::memory_order_relaxed);
  while (now > peak && !peak_bytes.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
  allocated_total.fetch_add(bytes, std::memory_order_relaxed);
  allocations.fetch_add(1, std::memory_order_relaxed);
}

void MemoryUse::freed(int64_t bytes) {
  bytes_in_use.fetch_sub(bytes, std::memory_order_relaxed);
  freed_total.fetch_add(bytes, std::memory_order_relaxed);
  frees.fetch_add(1, std::memory_order_relaxed);
}

void MemoryUse::reset_accumulated() {
  int64_t live = live_allocations();
  allocated_total = bytes_in_use.load();
  freed_total = 0;
  allocations = live;
  frees = 0;
}

}  // namespace torch_tpu
