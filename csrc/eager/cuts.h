// Where a trace that nothing else ends is cut.
#pragma once

#include <cstdint>

namespace torch_tpu {

// Cuts by content, so that a loop is cut before the same op in every iteration however long it is:
// the first half of a chunk's budget finds the op with the smallest hash, and the chunk ends before
// the next op with a hash as small. A loop shorter than that repeats the op, and a chunk that
// begins with it ends before it again.
class Cuts {
 public:
  // Ops of a trace that is run as one program. One that grows longer is run in chunks: compiling
  // takes longer than its ops do, and where it is a loop, or the layers of a model, its chunks
  // repeat.
  static constexpr uint32_t kWhole = 1024;
  static constexpr uint32_t kChunk = 256;

  // Whether the chunk ends before an op with this hash, which then begins the next one.
  bool before(uint64_t hash) {
    const bool searching = length_ < kChunk / 2;
    if (!searching && (hash <= smallest_ || length_ >= kChunk)) {
      smallest_ = hash;
      length_ = 1;
      return true;
    }
    if (searching && hash < smallest_) smallest_ = hash;
    ++length_;
    return false;
  }

 private:
  uint64_t smallest_ = UINT64_MAX;
  uint32_t length_ = 0;
};

}  // namespace torch_tpu
