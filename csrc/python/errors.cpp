// Errors that a program reports by value, as Python exceptions that say which line they come from.
#include "python/errors.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include "device/runtime.h"

namespace py = pybind11;

namespace torch_tpu {

namespace {

py::object exception_type(const std::string& name) {
  if (name == "_LinAlgError") return py::module_::import("torch._C").attr("_LinAlgError");
  return py::module_::import("builtins").attr(name.c_str());
}

void raise_with_line(const Check& check, const Site& site) {
  py::gil_scoped_acquire gil;
  py::object error = exception_type(check.error)(check.message);
  if (site.file != nullptr) {
    error.attr("add_note")("torch_tpu: found by the op that was called at " + site.text());
  }
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  python_error persistent;
  persistent.persist();
  throw persistent;
}

}  // namespace

void register_errors() { Runtime::get().set_raise_check(&raise_with_line); }

}  // namespace torch_tpu
