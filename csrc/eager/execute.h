// Running a plan: inputs to buffers, outputs to tensors.
#pragma once

#include "eager/plan.h"

namespace torch_tpu {

// Runs the call's plan; the arguments on the stack give way to the results. `length` fills the
// sizes that values decided.
void execute(const Plan& plan, Call& call, int64_t length = -1);

// Runs the plan's size program and waits for the length.
int64_t execute_size(const Plan& plan, Call& call);

void run_on_cpu(const Op& op, torch::jit::Stack& stack);

}  // namespace torch_tpu
