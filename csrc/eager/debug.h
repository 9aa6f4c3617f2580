// Debug mode: wait for each op, print it, look for NaN and Inf.
#pragma once

#include "eager/op.h"
#include "eager/plan.h"

namespace torch_tpu {

// Whether ops are to be looked at as they finish: in debug mode, and where checks or printing are
// on.
bool inspecting();

// Waits for an op that just ran; its results are the last on the stack.
void inspect(const Op& op, Ordinal ordinal, const torch::jit::Stack& stack);

}  // namespace torch_tpu
