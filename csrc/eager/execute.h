// Running a plan at once, and what every call leaves behind: tensors, written cells, results.
#pragma once

#include "eager/plan.h"

namespace torch_tpu {

// Runs the call's plan; the arguments on the stack give way to the results. `length` fills the
// sizes that values decided.
void execute(const Plan& plan, Call& call, int64_t length = -1);

// Runs the plan's size program and waits for the length.
int64_t execute_size(const Plan& plan, Call& call);

// Gives `out=` arguments the sizes that the plan wants.
void resize_arguments(const Plan& plan, const Call& call);

// Puts a call's results on the stack, given the Values that it made: those of the new tensors, then
// those of the written slots.
void deliver(const Plan& plan, Call& call, std::span<ValuePtr> values, int64_t length = -1);

void run_on_cpu(const Op& op, torch::jit::Stack& stack);

}  // namespace torch_tpu
