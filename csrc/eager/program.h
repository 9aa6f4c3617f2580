// Programs: executables, the numbers that they take, and how many of them memory holds.
#pragma once

#include <c10/util/SmallVector.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "device/value.h"

namespace torch_tpu {

// Where a program's parameter comes from.
struct Parameter {
  enum class Source : uint8_t { kInput, kInts, kFloats } source;
  uint32_t input = 0;
};

// The numbers of a launch. Those of random ops never come twice and are not worth remembering.
struct Numbers {
  std::span<const int64_t> ints;
  std::span<const double> floats;
  bool random = false;
};

using BufferPtr = std::shared_ptr<pjrt::Buffer>;
using Outputs = c10::SmallVector<PJRT_Buffer*, 8>;

class Program {
 public:
  Program(std::shared_ptr<pjrt::Executable> executable, std::vector<Parameter> parameters);

  // False once it was evicted: it must be made again.
  bool loaded() const { return !evicted_.load(std::memory_order_relaxed); }
  void evict() { evicted_ = true; }
  // Lets the executable of an evicted program go. Later than evict(), because another thread may
  // have been about to run it.
  void unload() { executable_.reset(); }
  uint64_t last_launch() const { return last_launch_.load(std::memory_order_relaxed); }

  // Runs it, asynchronously; the results are the caller's. Throws OutOfMemoryError and RuntimeError
  // that name the op.
  Outputs launch(std::span<PJRT_Buffer* const> inputs, const Numbers& numbers, Ordinal ordinal,
                 const char* op) const;

 private:
  // The last numbers and their copy on the device: most loops pass the same ones each time.
  struct Memo {
    std::mutex mutex;
    std::vector<uint64_t> numbers;
    Ordinal ordinal = -1;
    BufferPtr buffer;
  };
  template <typename Number>
  BufferPtr upload(std::span<const Number> numbers, Memo& memo, Ordinal ordinal, bool random) const;

  std::shared_ptr<pjrt::Executable> executable_;
  std::atomic<bool> evicted_{false};
  std::vector<Parameter> parameters_;
  mutable std::atomic<uint64_t> last_launch_{0};
  mutable Memo ints_, floats_;
};

using ProgramPtr = std::shared_ptr<Program>;

// A plan's programs by the inputs that they may reuse.
class Programs {
 public:
  // Null where there is none, or where it was evicted.
  ProgramPtr find(std::span<const uint32_t> donated) const;
  ProgramPtr any() const;
  void add(std::span<const uint32_t> donated, ProgramPtr program);

 private:
  struct Entry {
    std::vector<uint32_t> donated;
    ProgramPtr program;
  };
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
};

// Counts a program among those that memory holds.
void keep_resident(const ProgramPtr& program);
// How many programs memory may hold; beyond that the one that ran longest ago is evicted.
void set_max_programs(size_t count);

}  // namespace torch_tpu
