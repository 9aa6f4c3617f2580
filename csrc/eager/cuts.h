// Where a trace that nothing else ends is cut.
#pragma once

#include <cstdint>

namespace torch_tpu {

// Cuts by content, so that a loop is cut before the same op in every iteration however long it is:
// the first half of the budget finds the op with the smallest hash, and the trace ends before the
// next op with a hash as small. A loop shorter than half the budget repeats that op, and a trace
// that begins with it ends before it again.
class Cuts {
 public:
  static constexpr uint32_t kBudget = 2048;

  // Whether the trace ends before an op with this hash, which then begins the next one.
  bool before(uint64_t hash) {
    const bool first_half = length_ < kBudget / 2;
    if (!first_half && (hash <= smallest_ || length_ >= kBudget)) return true;
    if (first_half && hash < smallest_) smallest_ = hash;
    ++length_;
    return false;
  }
  void restart() { *this = Cuts(); }

 private:
  uint64_t smallest_ = UINT64_MAX;
  uint32_t length_ = 0;
};

}  // namespace torch_tpu
