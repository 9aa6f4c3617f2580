// A trace run op by op, through the programs that strict mode runs.
#include <algorithm>

#include "device/device.h"
#include "eager/fusion.h"

namespace torch_tpu {

namespace {

bool writes(const Plan& plan, size_t slot) {
  return std::ranges::any_of(plan.writes, [&](const Write& each) { return each.slot == slot; });
}

class Pieces {
 public:
  explicit Pieces(Trace& trace) : trace_(trace), last_uses_(trace) {}

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
      values.push_back(trace_.value(edge));
      inputs.push_back(values.back()->buffer().get());
    }
    drop_after(place);
    std::vector<uint32_t> donated = donated_of(node, values);
    ProgramPtr program = find(plan, donated);
    if (!program) program = program_of(alone(plan, std::move(edges), donated, trace_.ordinal));
    Outputs outputs =
        program->launch({inputs.data(), inputs.size()},
                        {trace_.ints_of(place), trace_.floats_of(place), plan.op->random},
                        trace_.ordinal, plan.op->name.c_str());
    for (uint32_t input : donated) values[input].reset();
    const PJRT_Api* api = Runtime::get().client().plugin()->api();
    for (uint32_t output = 0; output < plan.outputs(); ++output) {
      ValuePtr& value = trace_.outputs[node.first_output + output];
      value->fulfil(pjrt::Buffer(api, outputs[output]));
      if (last_uses_.outputs[node.first_output + output] == LastUses::kNever) value.reset();
    }
    if (!plan.checks.empty()) {
      Runtime::get().report_later(trace_.ordinal, {pjrt::Buffer(api, outputs[plan.outputs()]),
                                                   &plan.checks, trace_.sites[place]});
    }
  }

 private:
  void drop_after(uint32_t place) {
    const Node& node = trace_.nodes[place];
    for (size_t slot = 0; slot < trace_.edges(node); ++slot) {
      const Edge edge = trace_.edge(node, slot);
      if (edge != kUnfilled && last_uses_.of(edge) == place) trace_.value(edge).reset();
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
  LastUses last_uses_;
};

}  // namespace

void Fusion::run_in_pieces(Trace& trace) {
  Pieces pieces(trace);
  for (uint32_t place = 0; place < trace.nodes.size(); ++place) {
    pieces.run(place);
  }
}

}  // namespace torch_tpu
