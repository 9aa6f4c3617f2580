// A graph that torch.compile captured: a program for each way in which its arguments lie in memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "eager/call.h"
#include "eager/plan.h"
#include "eager/program.h"

namespace torch_tpu {

// What the graph does with a tensor argument. Its other arguments are numbers, which enter the
// program at run time.
struct GraphInput {
  bool written;   // the graph gives its storage a new Value
  bool reusable;  // an output could take its memory if nothing else needs it
  bool padded;    // of a size known at run time: its Value has the program's bounds as dims
};

// How a tensor argument lies in its storage's Value. A window is a proper part of it: where it
// begins is a runtime input, so that another offset needs no other program.
struct Binding {
  bool filled;  // false where the storage was never written: it reads as zeros
  Dims value_dims;
  c10::ScalarType value_dtype;
  Dims sizes, strides;
  c10::ScalarType dtype;
  int64_t offset;   // -1 for a window
  int64_t aligned;  // a window's offset is a multiple of this many elements
  bool conj, neg;
  int32_t slot = -1;  // the first argument of the same storage, where one of them is written
};

// What one program of the graph gives. Negative numbers in `created`'s sizes and strides stand for
// the call's own: -1 - i is its size i.
struct GraphProgram {
  ResidentPtr program;
  std::vector<NewTensor> created;
  std::vector<Write> writes;         // `slot` counts the tensor arguments
  const std::vector<Check>* checks;  // never freed: what was launched may yet report
};

// One call's arguments, as far as they were read.
class GraphCall {
 public:
  GraphCall(std::span<const GraphInput> inputs, Ordinal ordinal, std::vector<int64_t> bounds);
  void add_number(int64_t number) { ints.push_back(number); }
  void add_number(double number) { floats.push_back(number); }
  // The next tensor argument, on the device.
  void add_tensor(const at::Tensor& tensor);
  // After the caller let its own references go: which inputs the program may reuse.
  void find_donated();
  std::vector<Binding> bindings() const;

  const Ordinal ordinal;
  KeyBuilder key;
  std::vector<int64_t> bounds;  // of the sizes that are known at run time
  std::vector<int64_t> ints;
  std::vector<double> floats;
  c10::SmallVector<uint32_t, 16> donated;  // of the filled tensors, counted through

 private:
  friend class Graph;
  // The tensor itself is not held, which would keep its storage.
  struct Bound {
    const Cell* cell;
    ValuePtr value;
    std::unique_ptr<Binding> view;                 // null where the tensor is the whole Value
    c10::intrusive_ptr<c10::StorageImpl> storage;  // of a written one
  };
  void find_shared();

  std::span<const GraphInput> inputs_;
  std::vector<Bound> bound_;
  std::vector<int32_t> slots_;  // by argument, if storages are shared
};

class Graph {
 public:
  // Makes the program of a call whose like was not seen before.
  using Make = std::function<GraphProgram(const GraphCall&)>;

  Graph(std::string label, std::vector<GraphInput> inputs, int64_t draws, Ordinal ordinal,
        Make make);
  const std::vector<GraphInput>& inputs() const { return inputs_; }
  Ordinal ordinal() const { return ordinal_; }
  // Runs it, asynchronously: the new tensors, in order. `sizes` are what negative sizes stand for.
  std::vector<at::Tensor> run(GraphCall& call, std::span<const int64_t> sizes);

 private:
  using GraphProgramPtr = std::shared_ptr<const GraphProgram>;
  std::pair<GraphProgramPtr, ProgramPtr> program_for(const GraphCall& call);

  const std::string label_;
  const std::vector<GraphInput> inputs_;
  const int64_t draws_;  // of random numbers, one for each random op
  const Ordinal ordinal_;
  const Make make_;
  std::mutex mutex_;
  std::unordered_map<std::string, GraphProgramPtr> programs_;
  std::pair<std::string_view, GraphProgramPtr> latest_;
};

}  // namespace torch_tpu
