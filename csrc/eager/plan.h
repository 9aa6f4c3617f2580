// What a call with a given key does: the program to run and what becomes of its outputs.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/value.h"
#include "eager/call.h"

namespace torch_tpu {

// Where a program's parameter comes from.
struct Parameter {
  enum class Source : uint8_t { kSlot, kInts, kFloats } source;
  uint32_t slot = 0;
};

// A program and the order of its parameters.
struct Program {
  std::shared_ptr<pjrt::Executable> executable;
  std::vector<Parameter> parameters;
};

// A tensor that the call creates, from the program's output of the same place.
struct NewTensor {
  // -1 in sizes: the length that the values decided; the tensor is then row-major at the front of
  // its Value.
  Dims sizes, strides;
  Dims value_dims;
  c10::ScalarType dtype;
};

// A storage that the call gives a new Value; these outputs follow those of the new tensors.
struct Write {
  uint32_t slot;
  Dims dims;
  c10::ScalarType dtype;
};

// An `out=` tensor that takes another size first.
struct Resize {
  std::vector<uint32_t> argument;  // place, and place within a list
  Dims sizes, strides;
};

// One of the schema's returns.
struct Return {
  enum class Kind : uint8_t { kNew, kArgument, kList, kUndefined, kNumber } kind;
  int64_t place = 0;          // of the new tensor or the argument; the number itself
  std::vector<Return> items;  // kList
};

struct Plan {
  std::string key;
  bool fallback = false;
  Program program;
  std::vector<NewTensor> created;
  std::vector<Write> writes;
  std::vector<Resize> resizes;
  std::vector<Return> returns;
  std::vector<Check> checks;  // if any, the program's last output is their code

  // For an op whose output length depends on values: the program that finds the length, and a
  // plan for each bound that was needed so far.
  std::unique_ptr<Program> size_program;
  mutable std::map<int64_t, std::unique_ptr<Plan>> buckets;
};

// The Python side: makes a plan on a miss. Takes the GIL.
class Compiler {
 public:
  virtual ~Compiler() = default;
  // Learns which numbers of an op are runtime inputs and whether it has a rule.
  virtual void describe(Op& op) = 0;
  // With `bound`, a plan for outputs of at most that length.
  virtual std::unique_ptr<Plan> compile(const Call& call, std::optional<int64_t> bound) = 0;
  // Says that an op runs on the CPU, as the fallback policy wants; may throw.
  virtual void report_fallback(const Op& op, const torch::jit::Stack& stack) = 0;
};

void set_compiler(std::unique_ptr<Compiler> compiler);
Compiler& compiler();

}  // namespace torch_tpu
