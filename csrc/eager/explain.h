// What happened at each flush, for torch_tpu.diagnostics.explain().
#pragma once

#include <vector>

#include "device/site.h"
#include "eager/plan.h"

namespace torch_tpu {

// How a flush got its program.
enum class Outcome : uint8_t { kHit, kStored, kCompiled, kCompiling, kInPieces, kNothing };

struct FlushReport {
  FlushReason reason;
  Outcome outcome;
  size_t ops = 0;
  size_t kept = 0;  // outputs that something could still reach
  size_t bytes = 0;
  Site site;  // where the flush was asked for
  // On a miss: the first op that differs from the nearest earlier trace, and what stood there.
  size_t difference = 0;
  const Plan* now = nullptr;
  const Plan* before = nullptr;
};

bool explaining();
void set_explaining(bool enabled);
void report(FlushReport report);
std::vector<FlushReport> take_reports();

}  // namespace torch_tpu
