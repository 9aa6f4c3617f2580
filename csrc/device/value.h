// A Value: one immutable array on a device. A Cell: what a storage points to.
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/SmallVector.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <string>

#include "device/runtime.h"

namespace torch_tpu {

using Dims = c10::SmallVector<int64_t, 5>;

// PJRT's number for an element type; TypeError where XLA has no such type.
pjrt::ElementType element_type(c10::ScalarType dtype);

class Value : public c10::intrusive_ptr_target {
 public:
  // A concrete Value.
  Value(pjrt::Buffer buffer, c10::IntArrayRef dims, c10::ScalarType dtype, Ordinal ordinal);
  // A pending one: what a recorded op will give.
  Value(c10::IntArrayRef dims, c10::ScalarType dtype, Ordinal ordinal);
  ~Value() override;

  const Dims& dims() const { return dims_; }
  c10::ScalarType dtype() const { return dtype_; }
  Ordinal ordinal() const { return ordinal_; }
  size_t bytes() const { return bytes_; }

  bool pending() const { return state() == State::kPending; }
  // Throws for a Value whose op failed.
  void check_not_failed() const {
    if (state() == State::kFailed) [[unlikely]]
      raise_failure();
  }
  // Runs what was recorded first where the Value is pending.
  const pjrt::Buffer& buffer() const {
    if (state() != State::kConcrete) [[unlikely]]
      settle();
    return buffer_;
  }
  void fulfil(pjrt::Buffer buffer);
  void fail(std::string reason);
  // A program took the buffer for what replaces this Value.
  void donate();

  // Where the trace that is being recorded has this Value; for that trace alone, under its lock.
  struct Mark {
    uint64_t trace = 0;
    int32_t edge = 0;
  };
  mutable Mark mark;

 private:
  enum class State : uint8_t { kConcrete, kPending, kFailed };
  State state() const { return state_.load(std::memory_order_acquire); }
  void settle() const;
  [[noreturn]] void raise_failure() const;

  std::atomic<State> state_;
  Dims dims_;
  c10::ScalarType dtype_;
  Ordinal ordinal_;
  size_t bytes_;
  pjrt::Buffer buffer_;
  std::string failure_;
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
  static void free(void* cell);

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

// While Python's garbage collector runs on this thread, the Values of the storages that it frees
// are kept until the next flush: its timing must not decide which outputs a program has.
void set_collecting(bool collecting);
// Lets go of what was kept.
void release_collected();

// What our allocator knows of a device's memory.
struct MemoryUse {
  std::atomic<int64_t> bytes_in_use{0}, peak_bytes{0}, peak_tensor_bytes{0}, allocated_total{0},
      freed_total{0}, allocations{0}, frees{0}, out_of_memory{0};
  int64_t live_allocations() const { return allocations - frees; }
  void allocated(int64_t bytes);
  // Memory that a program needs while it runs counts in the peak.
  void runs_with(int64_t bytes) { raise(peak_bytes, bytes_in_use + bytes); }
  void freed(int64_t bytes);
  void reset_peak() { peak_bytes = peak_tensor_bytes = bytes_in_use.load(); }
  void reset_accumulated();

  static MemoryUse& of(Ordinal ordinal);

 private:
  static void raise(std::atomic<int64_t>& peak, int64_t now);
};

}  // namespace torch_tpu
