// What happened at each flush, for torch_tpu.diagnostics.explain().
#pragma once

#include <vector>

#include "device/site.h"
#include "eager/plan.h"

namespace torch_tpu {

// How a flush got its program.
enum class Outcome : uint8_t {
  kHit,
  kStored,  // on disk
  kCompiled,
  kCompiling,  // in the background, from now on
  kInPieces,   // one op only, or a program that could not be made
  kNothing,    // nobody could tell whether it ran
  kWaiting,    // the program is still being compiled
  kChurning,   // too many programs of such shapes were never used twice
};

struct FlushReport {
  FlushReason reason;
  Outcome outcome;
  size_t ops = 0;
  size_t kept = 0;  // outputs that something could still reach
  size_t bytes = 0;
  Site site;  // where the flush was asked for
  // On a miss: whether there was an earlier trace to compare with, the first op that differs from
  // it, and what stood there. Both are null where only arrays, kept outputs or donated inputs do.
  bool compared = false;
  size_t difference = 0;
  const Plan* now = nullptr;
  const Plan* before = nullptr;
  Site op_site;
};

bool explaining();
void set_explaining(bool enabled);
void report(FlushReport report);
std::vector<FlushReport> take_reports();

}  // namespace torch_tpu
