#include "device/site.h"

#include <Python.h>
#include <frameobject.h>

#include <set>
#include <string_view>

namespace torch_tpu {

namespace {

std::vector<std::string>& library_folders() {
  static std::vector<std::string> folders;
  return folders;
}

// Called with the GIL.
const char* intern(const char* file) {
  static std::set<std::string> files;
  return files.insert(file).first->c_str();
}

bool is_library(std::string_view file) {
  for (const std::string& folder : library_folders()) {
    if (file.starts_with(folder)) return true;
  }
  return false;
}

// PyTorch's bindings call ops without the GIL.
class Gil {
 public:
  Gil() : state_(PyGILState_Ensure()) {}
  ~Gil() { PyGILState_Release(state_); }
  Gil(const Gil&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace

std::string Site::text() const {
  return file == nullptr ? "" : std::string(file) + ":" + std::to_string(line);
}

Site current_site() {
  if (!Py_IsInitialized() || PyGILState_GetThisThreadState() == nullptr) return {};
  const Gil gil;
  PyFrameObject* frame = PyEval_GetFrame();
  if (frame == nullptr) return {};
  Py_INCREF(frame);
  Site site;
  while (frame != nullptr) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    if (file != nullptr && !is_library(file)) site = {intern(file), PyFrame_GetLineNumber(frame)};
    Py_DECREF(code);
    PyFrameObject* outer = site.file == nullptr ? PyFrame_GetBack(frame) : nullptr;
    Py_DECREF(frame);
    frame = outer;
  }
  return site;
}

Site site_at(const std::string& file, int line) {
  const Gil gil;
  return {intern(file.c_str()), line};
}

void set_library_folders(std::vector<std::string> folders) {
  library_folders() = std::move(folders);
}

}  // namespace torch_tpu
