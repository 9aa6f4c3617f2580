// A trace: the calls recorded since the last flush, and what they read and make.
#pragma once

#include <vector>

#include "eager/plan.h"

namespace torch_tpu {

// One recorded call.
struct Node {
  const Plan* plan;
  uint32_t first_edge;  // in the signature; one per slot
  uint32_t first_output;
  uint32_t first_int, first_float;
};

class Trace {
 public:
  explicit Trace(Ordinal ordinal) : ordinal(ordinal) {}

  // Appends a call. What it makes are pending Values at the end of `outputs`: those of the new
  // tensors, then those of the written slots.
  void append(const Plan& plan, const Call& call);
  void clear();

  // Outputs that something besides the trace can still reach, inputs that nothing else can.
  std::vector<uint32_t> live() const;
  std::vector<uint32_t> unshared_inputs() const;

  Edge edge(const Node& node, size_t slot) const {
    return static_cast<Edge>(signature[node.first_edge + slot]);
  }
  size_t edges(const Node& node) const {
    const Node* next = &node + 1;
    const size_t end = next == nodes.data() + nodes.size() ? signature.size() : next->first_edge - 1;
    return end - node.first_edge;
  }
  ProgramSource source(std::vector<uint32_t> live, std::vector<uint32_t> donated) const;

  Ordinal ordinal;
  std::vector<Node> nodes;
  std::vector<uint32_t> signature;  // of each node: its plan's id, then an edge per slot
  std::vector<ValuePtr> inputs, outputs;
  std::vector<int64_t> ints;
  std::vector<double> floats;
  bool random = false;
  bool checks = false;

 private:
  Edge edge_of(const Slot& slot);

  uint64_t serial_ = next_serial();
  static uint64_t next_serial();
};

}  // namespace torch_tpu
