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

  const std::shared_ptr<pjrt::Executable> executable_;
  const std::vector<Parameter> parameters_;
  mutable std::atomic<uint64_t> last_launch_{0};
  mutable Memo ints_, floats_;
};

using ProgramPtr = std::shared_ptr<Program>;

// A program for as long as memory holds it; null once it was evicted and must be made again. Who
// takes it out may run it whatever becomes of the place.
using ResidentPtr = std::shared_ptr<std::atomic<ProgramPtr>>;

// Counts a program among those that memory holds. Beyond the maximum, the one that ran longest ago
// is evicted.
ResidentPtr keep_resident(ProgramPtr program);
void set_max_programs(size_t count);

// A plan's programs by the inputs that they may reuse.
class Programs {
 public:
  // Null where there is none, or where it was evicted.
  ProgramPtr find(std::span<const uint32_t> donated) const;
  bool any() const;
  void add(std::span<const uint32_t> donated, ProgramPtr program);

 private:
  struct Entry {
    std::vector<uint32_t> donated;
    ResidentPtr program;
  };
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace torch_tpu
