// Errors that a program reports by value, raised as PyTorch's exceptions.
#include <c10/util/Exception.h>

#include "device/runtime.h"

namespace torch_tpu {

namespace {

CheckRaiser& raiser() {
  static CheckRaiser instance = nullptr;
  return instance;
}

}  // namespace

void set_check_raiser(CheckRaiser value) { raiser() = value; }

void raise_check(const Check& check, const Site& site) {
  if (raiser() != nullptr) raiser()(check, site);
  TORCH_CHECK_INDEX(check.error != "IndexError", check.message);
  TORCH_CHECK_VALUE(check.error != "ValueError", check.message);
  TORCH_CHECK_TYPE(check.error != "TypeError", check.message);
  TORCH_CHECK_LINALG(check.error != "_LinAlgError", check.message);
  TORCH_CHECK(false, check.message);
}

}  // namespace torch_tpu
