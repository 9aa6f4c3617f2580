// The compiler that eager calls on a miss, in Python.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <vector>

#include "eager/plan.h"

namespace torch_tpu {

std::unique_ptr<Compiler> python_compiler();

// Python's answers as C++ has them; torch_tpu/compiler/node.py names their parts.
pybind11::tuple tuple_of(c10::IntArrayRef items);
ProgramPtr read_program(pybind11::handle source);
std::vector<NewTensor> read_created(pybind11::handle source);
std::vector<Write> read_writes(pybind11::handle source);

}  // namespace torch_tpu
