// Python that C++ calls while Dynamo may be watching this thread.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace torch_tpu {

// With the GIL: while one of these lives Dynamo doesn't look at this thread's frames. It would
// otherwise compile what makes a program for an op that runs between two of its graphs.
class Untraced {
 public:
  Untraced() : watching_(set(pybind11::none())) {}
  ~Untraced() { set(watching_); }
  Untraced(const Untraced&) = delete;
  Untraced& operator=(const Untraced&) = delete;

 private:
  static pybind11::object set(const pybind11::object& callback) {
    return pybind11::module_::import("torch._C._dynamo.eval_frame")
        .attr("set_eval_frame")(callback);
  }
  const pybind11::object watching_;
};

}  // namespace torch_tpu
