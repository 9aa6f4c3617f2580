// A trace: the calls recorded since the last flush, and what they read and make.
#pragma once

#include <vector>

#include "device/site.h"
#include "eager/plan.h"

namespace torch_tpu {

// One recorded call.
struct Node {
  const Plan* plan;
  uint32_t first_edge;  // in the signature; one per slot
  uint32_t first_output;
  uint32_t first_int, first_float;
};

struct LastUses;

class Trace {
 public:
  explicit Trace(Ordinal ordinal) : ordinal(ordinal) {}
  Trace(Trace&&) = default;
  Trace& operator=(Trace&&) = default;

  // Appends a call. What it makes are pending Values at the end of `outputs`: those of the new
  // tensors, then those of the written slots.
  void append(const Plan& plan, const Call& call);
  // Moves nodes from another trace to the end of this one. Values that the rest of it won't read
  // are let go there.
  void take(Trace& from, uint32_t begin, uint32_t end, LastUses& last_uses);
  // Says why what it makes will never have a value.
  void fail_pending(const std::string& reason);
  void clear();

  // Outputs that something besides the trace can still reach, inputs that nothing else can.
  std::vector<uint32_t> live() const;
  std::vector<uint32_t> unshared_inputs() const;

  Edge edge(const Node& node, size_t slot) const {
    return static_cast<Edge>(signature[node.first_edge + slot]);
  }
  size_t edges(const Node& node) const {
    const Node* next = &node + 1;
    const size_t end =
        next == nodes.data() + nodes.size() ? signature.size() : next->first_edge - 1;
    return end - node.first_edge;
  }
  ValuePtr& value(Edge edge) { return (edge % 2 == 0 ? inputs : outputs)[edge / 2]; }
  std::span<const int64_t> ints_of(uint32_t place) const;
  std::span<const double> floats_of(uint32_t place) const;
  ProgramSource source(std::vector<uint32_t> live, std::vector<uint32_t> donated) const;

  Ordinal ordinal;
  std::vector<Node> nodes;
  std::vector<uint32_t> signature;  // of each node: its plan's id, then an edge per slot
  std::vector<Site> sites;          // of each node
  std::vector<ValuePtr> inputs, outputs;
  std::vector<int64_t> ints;
  std::vector<double> floats;
  bool random = false;
  bool checks = false;

 private:
  void begin_node(const Plan& plan);
  Edge edge_of(const ValuePtr& value);
  void add_output(ValuePtr value);

  uint64_t serial_ = next_serial();
  static uint64_t next_serial();
};

// When each Value of a trace is read last: the place of a node.
struct LastUses {
  static constexpr uint32_t kNever = UINT32_MAX;
  std::vector<uint32_t> inputs, outputs;

  explicit LastUses(const Trace& trace);
  uint32_t& of(Edge edge) { return (edge % 2 == 0 ? inputs : outputs)[edge / 2]; }
};

}  // namespace torch_tpu
