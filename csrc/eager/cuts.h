// Where a trace that nothing else ends is cut.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace torch_tpu {

// Cuts by content, so that a loop is cut before the same ops in every iteration however long it is:
// a chunk that is long enough ends before an op whose hash is no larger than those of the ops just
// before it. Which ops these are depends on the ops alone, not on where the last cut was.
class Cuts {
 public:
  // Ops of a trace that is run as one program. One that grows longer is run in chunks: compiling
  // takes longer than its ops do, and where it is a loop, or the layers of a model, its chunks
  // repeat.
  static constexpr uint32_t kWhole = 1024;
  static constexpr uint32_t kLeast = 128, kMost = 512;  // ops of a chunk

  // Whether the chunk ends before an op with this hash, which then begins the next one.
  bool before(uint64_t hash) {
    const bool cut =
        length_ >= kMost || (length_ >= kLeast &&
                             std::ranges::all_of(recent_, [=](auto each) { return hash <= each; }));
    recent_[next_++ % recent_.size()] = hash;
    length_ = cut ? 1 : length_ + 1;
    return cut;
  }

 private:
  std::array<uint64_t, 64> recent_{};
  uint32_t next_ = 0;
  uint32_t length_ = 0;
};

}  // namespace torch_tpu
