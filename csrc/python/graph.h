// torch_tpu._C.Graph: a captured graph as a Python callable.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace torch_tpu {

void bind_graphs(pybind11::module_& module);

}  // namespace torch_tpu
