// A trace run op by op, through the programs that strict mode runs.
#include <algorithm>

#include "device/device.h"
#include "eager/fusion.h"

namespace torch_tpu {

namespace {

constexpr uint32_t kNever = UINT32_MAX;

// When each Value of a trace is read last.
struct LastUses {
  std::vector<uint32_t> inputs, outputs;

  explicit LastUses(const Trace& trace)
      : inputs(trace.inputs.size(), kNever), outputs(trace.outputs.size(), kNever) {
    for (uint32_t place = 0; place < trace.nodes.size(); ++place) {
      const Node& node = trace.nodes[place];
      for (size_t slot = 0; slot < trace.edges(node); ++slot) {
        const Edge edge = trace.edge(node, slot);
        if (edge != kUnfilled) of(edge) = place;
      }
    }
  }
  uint32_t& of(Edge edge) { return (edge % 2 == 0 ? inputs : outputs)[edge / 2]; }
};

bool writes(const Plan& plan, size_t slot) {
  return std::ranges::any_of(plan.writes, [&](const Write& each) { return each.slot == slot; });
}

std::span<const int64_t> ints_of(const Trace& trace, size_t place) {
  const auto& nodes = trace.nodes;
  const size_t first = nodes[place].first_int;
  const size_t end = place + 1 < nodes.size() ? nodes[place + 1].first_int : trace.ints.size();
  return {trace.ints.data() + first, end - first};
}

std::span<const double> floats_of(const Trace& trace, size_t place) {
  const auto& nodes = trace.nodes;
  const size_t first = nodes[place].first_float;
  const size_t end = place + 1 < nodes.size() ? nodes[place + 1].first_float : trace.floats.size();
  return {trace.floats.data() + first, end - first};
}

class Pieces {
 public:
  Pieces(Trace& trace, const std::vector<Site>& sites)
      : trace_(trace), sites_(sites), last_uses_(trace) {}

  void run(uint32_t place) {
    const Node& node = trace_.nodes[place];
    const Plan& plan = *node.plan;
    c10::SmallVector<ValuePtr, 8> values;
    c10::SmallVector<PJRT_Buffer*, 8> inputs;
    std::vector<Edge> edges;
    for (size_t slot = 0; slot < trace_.edges(node); ++slot) {
      const Edge edge = trace_.edge(node, slot);
      edges.push_back(edge == kUnfilled ? kUnfilled : static_cast<Edge>(2 * values.size()));
      if (edge == kUnfilled) continue;
      values.push_back(value_of(edge));
      inputs.push_back(values.back()->buffer().get());
    }
    drop_after(place);
    std::vector<uint32_t> donated = donated_of(node, values);
    ProgramPtr program = find(plan, donated);
    if (!program) {
      std::vector<uint32_t> all;
      for (uint32_t output = 0; output < plan.outputs(); ++output) all.push_back(output);
      program = program_of(plan, {{{&plan, edges}}, all, donated, trace_.ordinal});
    }
    Outputs outputs = program->launch(
        {inputs.data(), inputs.size()},
        {ints_of(trace_, place), floats_of(trace_, place), plan.op->random}, trace_.ordinal,
        plan.op->name.c_str());
    const PJRT_Api* api = Runtime::get().client().plugin()->api();
    for (uint32_t output = 0; output < plan.outputs(); ++output) {
      ValuePtr& value = trace_.outputs[node.first_output + output];
      value->fulfil(pjrt::Buffer(api, outputs[output]));
      if (last_uses_.outputs[node.first_output + output] == kNever) value.reset();
    }
    if (!plan.checks.empty()) {
      Runtime::get().report_later(
          trace_.ordinal, {pjrt::Buffer(api, outputs[plan.outputs()]), &plan.checks, sites_[place]});
    }
  }

 private:
  ValuePtr& value_of(Edge edge) {
    return (edge % 2 == 0 ? trace_.inputs : trace_.outputs)[edge / 2];
  }
  void drop_after(uint32_t place) {
    const Node& node = trace_.nodes[place];
    for (size_t slot = 0; slot < trace_.edges(node); ++slot) {
      const Edge edge = trace_.edge(node, slot);
      if (edge != kUnfilled && last_uses_.of(edge) == place) value_of(edge).reset();
    }
  }
  // Inputs that the op writes and that only `values` still holds.
  std::vector<uint32_t> donated_of(const Node& node, const c10::SmallVectorImpl<ValuePtr>& values) {
    std::vector<uint32_t> donated;
    uint32_t input = 0;
    for (size_t slot = 0; slot < trace_.edges(node); ++slot) {
      if (trace_.edge(node, slot) == kUnfilled) continue;
      if (writes(*node.plan, slot) && values[input].use_count() == 1) donated.push_back(input);
      ++input;
    }
    return donated;
  }
  // A program that reuses less than it might is better than one that is yet to be compiled.
  static ProgramPtr find(const Plan& plan, const std::vector<uint32_t>& donated) {
    ProgramPtr program = plan.programs.find(donated);
    return program || donated.empty() ? program : plan.programs.find({});
  }

  Trace& trace_;
  const std::vector<Site>& sites_;
  LastUses last_uses_;
};

}  // namespace

void Fusion::run_in_pieces() {
  Pieces pieces(flushing_, sites_);
  for (uint32_t place = 0; place < flushing_.nodes.size(); ++place) {
    pieces.run(place);
  }
}

}  // namespace torch_tpu
