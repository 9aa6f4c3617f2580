// Numbers that an op refuses by value. They are inputs of the program, which takes any number, so
// that the call is where they are looked at.
#pragma once

#include <ATen/core/ivalue.h>

#include <string_view>

namespace torch_tpu {

// Throws CPU PyTorch's error where it refuses a number among the op's arguments.
using NumberCheck = void (*)(c10::ArrayRef<c10::IValue> arguments);

// The check of an op by its full name ("aten::random_.from"), null where it takes every number.
NumberCheck number_check_of(std::string_view name);

}  // namespace torch_tpu
