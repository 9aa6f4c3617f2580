// What a call with a given key does: what it makes and writes, and the programs that do it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/gil.h"
#include "device/value.h"
#include "eager/call.h"
#include "eager/program.h"

namespace torch_tpu {

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
  const Op* op;
  std::string key;
  uint32_t id;             // stands for the plan in a trace's signature
  uint64_t hash;           // of op and key; the same in every process
  void* record = nullptr;  // what the compiler knows it by
  bool fallback = false;
  std::vector<NewTensor> created;
  std::vector<Write> writes;
  std::vector<Resize> resizes;
  std::vector<Return> returns;
  std::vector<Check> checks;  // if any, the program's last output is their code
  mutable Programs programs;

  // For an op whose output length depends on values: the program that finds the length, and a
  // plan for each bound that was needed so far.
  ProgramPtr size_program;
  mutable std::map<int64_t, std::unique_ptr<Plan>> buckets;

  size_t outputs() const { return created.size() + writes.size(); }
  bool computes() const { return outputs() > 0 || !checks.empty(); }
};

// Where a step's slot takes its value from: 2 * i is the program's input i, 2 * o + 1 the output o
// of the steps before it, counted through.
using Edge = int32_t;
constexpr Edge kUnfilled = -1;

// What a program is made from.
struct ProgramSource {
  struct Step {
    const Plan* plan;
    std::vector<Edge> edges;  // by slot
  };
  std::vector<Step> steps;
  std::vector<uint32_t> live;     // outputs that are kept
  std::vector<uint32_t> donated;  // inputs that nothing else holds
  Ordinal ordinal;
};

// What the program of a call that runs alone is made from: every output is kept.
ProgramSource alone(const Plan& plan, std::vector<Edge> edges, std::span<const uint32_t> donated,
                    Ordinal ordinal);

// The Python side, for what is not known yet. Takes the GIL.
class Compiler {
 public:
  virtual ~Compiler() = default;
  // Learns which numbers of an op are runtime inputs and whether it has a rule.
  virtual void describe(Op& op) = 0;
  // With `bound`, a plan for outputs of at most that length.
  virtual std::unique_ptr<Plan> plan(const Call& call, std::optional<int64_t> bound) = 0;
  virtual ProgramPtr compile(const ProgramSource& source) = 0;
  // A program that needs no compilation, because the cache on disk has it; else null.
  virtual ProgramPtr find_stored(const ProgramSource& source) = 0;
  // Compiles on another thread and then calls `done` there, with null where that failed.
  virtual void compile_later(const ProgramSource& source, std::function<void(ProgramPtr)> done) = 0;
  // Whether a program that the cache lacks is an error, as TORCH_TPU_CACHE=require says.
  virtual bool must_not_compile() = 0;
  // Warns that a trace runs op by op because its program could not be made.
  virtual void report_failed_fusion(const ProgramSource& source, const std::string& reason) = 0;
  // Says that an op runs on the CPU, as the fallback policy wants; may throw.
  virtual void report_fallback(const Op& op, const torch::jit::Stack& stack) = 0;
};

void set_compiler(std::unique_ptr<Compiler> compiler);
Compiler& compiler();

// Waits for its turn, without the GIL: one thread at a time makes plans and programs.
class CompileTurn {
 public:
  CompileTurn();

 private:
  ReleaseGil no_gil_;
  std::unique_lock<std::recursive_mutex> lock_;
};

// The program of a source that `alone` gave, made where its plan has none.
ProgramPtr program_of(const ProgramSource& source);

}  // namespace torch_tpu
