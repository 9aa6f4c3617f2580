// A Value: one immutable array on a device. A Cell: what a storage points to.
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/SmallVector.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>

#include "device/runtime.h"

namespace torch_tpu {

using Dims = c10::SmallVector<int64_t, 5>;

// PJRT's number for an element type; TypeError where XLA has no such type.
pjrt::ElementType element_type(c10::ScalarType dtype);

class Value : public c10::intrusive_ptr_target {
 public:
  Value(pjrt::Buffer buffer, c10::IntArrayRef dims, c10::ScalarType dtype, Ordinal ordinal);
  ~Value() override;

  const Dims& dims() const { return dims_; }
  c10::ScalarType dtype() const { return dtype_; }
  Ordinal ordinal() const { return ordinal_; }
  size_t bytes() const { return bytes_; }
  const pjrt::Buffer& buffer() const { return buffer_; }

 private:
  Dims dims_;
  c10::ScalarType dtype_;
  Ordinal ordinal_;
  size_t bytes_;
  pjrt::Buffer buffer_;
};

using ValuePtr = c10::intrusive_ptr<Value>;

// The address of a cell is a storage's data pointer and never changes; a write swaps the Value.
// Without a Value the storage was never written: it reads as zeros and costs no memory.
class Cell {
 public:
  explicit Cell(Ordinal ordinal) : ordinal(ordinal) {}
  const Ordinal ordinal;

  ValuePtr load() const {
    Guard guard(lock_);
    return value_;
  }
  void store(ValuePtr value) {
    {
      Guard guard(lock_);
      value_.swap(value);
    }  // the old Value is freed outside the lock
  }

  static Cell& of(const c10::StorageImpl& storage) {
    return *static_cast<Cell*>(const_cast<void*>(storage.data_ptr().get()));
  }
  // A data pointer that owns a new cell, with a first Value if there is one.
  static c10::DataPtr allocate(Ordinal ordinal, ValuePtr value = {});

 private:
  struct Guard {
    explicit Guard(std::atomic_flag& flag) : flag(flag) {
      while (flag.test_and_set(std::memory_order_acquire)) {
      }
    }
    ~Guard() { flag.clear(std::memory_order_release); }
    std::atomic_flag& flag;
  };

  mutable std::atomic_flag lock_ = ATOMIC_FLAG_INIT;
  ValuePtr value_;
};

// What our allocator knows of a device's memory.
struct MemoryUse {
  std::atomic<int64_t> bytes_in_use{0}, peak_bytes{0}, allocated_total{0}, freed_total{0},
      allocations{0}, frees{0}, out_of_memory{0};
  int64_t live_allocations() const { return allocations - frees; }
  void allocated(int64_t bytes);
  void freed(int64_t bytes);
  void reset_peak() { peak_bytes = bytes_in_use.load(); }
  void reset_accumulated();

  static MemoryUse& of(Ordinal ordinal);
};

}  // namespace torch_tpu
