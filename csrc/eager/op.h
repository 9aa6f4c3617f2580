// What the recorder knows of an ATen op: its schema, boiled down to what a call needs.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <string>
#include <vector>

#include "eager/number_checks.h"

namespace torch_tpu {

// What the integers of an argument stand for.
enum class Meaning : uint8_t { kPlain, kScalarType, kLayout, kMemoryFormat };

struct Argument {
  std::string name;
  bool written = false;  // the schema says so
  Meaning meaning = Meaning::kPlain;
  bool runtime = false;  // numbers for it are program inputs; known once the op is described
  bool index = false;    // index tensors may be on the CPU, as on CUDA
};

struct Op {
  explicit Op(const c10::OperatorHandle& handle);

  const c10::OperatorHandle handle;
  const std::string name;           // "aten::add.Tensor"
  const NumberCheck check_numbers;  // null where the op takes every number
  std::vector<Argument> arguments;
  int generator = -1;  // which argument is the Generator
  bool random = false;
  bool writes_list = false;  // a list of tensors

  // Filled in by the compiler on the first call, under its lock.
  std::atomic<bool> described{false};
  bool has_rule = false;
};

}  // namespace torch_tpu
