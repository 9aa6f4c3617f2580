// Errors that a program reports by value, as Python exceptions that say which line they come from.
#include "python/errors.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <string_view>

#include "device/runtime.h"

namespace py = pybind11;

namespace torch_tpu {

namespace {

py::object exception_type(const std::string& name) {
  if (name == "_LinAlgError") return py::module_::import("torch._C").attr("_LinAlgError");
  return py::module_::import("builtins").attr(name.c_str());
}

std::string with_value(std::string message, int64_t value) {
  static constexpr std::string_view kMark = "{value}";
  if (const size_t at = message.find(kMark); at != std::string::npos) {
    message.replace(at, kMark.size(), std::to_string(value));
  }
  return message;
}

void raise_with_line(const Check& check, int64_t value, const Site& site) {
  py::gil_scoped_acquire gil;
  py::object error = exception_type(check.error)(with_value(check.message, value));
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
