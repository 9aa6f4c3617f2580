// Debug mode: wait for each op, print it, look for NaN and Inf.
#pragma once

#include "eager/op.h"
#include "eager/plan.h"

namespace torch_tpu {

// Waits for an op that just ran; its results are the last on the stack.
void finish_debug(const Op& op, Ordinal ordinal, const torch::jit::Stack& stack);

}  // namespace torch_tpu
