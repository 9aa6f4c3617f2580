// The compiler that eager calls on a miss, in Python.
#pragma once

#include <memory>

#include "eager/plan.h"

namespace torch_tpu {

std::unique_ptr<Compiler> python_compiler();

}  // namespace torch_tpu
