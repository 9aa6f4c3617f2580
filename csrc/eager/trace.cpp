#include "eager/trace.h"

namespace torch_tpu {

uint64_t Trace::next_serial() {
  static std::atomic<uint64_t> serial{0};
  return ++serial;
}

Edge Trace::edge_of(const Slot& slot) {
  if (!slot.value) return kUnfilled;
  Value::Mark& mark = slot.value->mark;
  if (mark.trace != serial_) {  // not seen before: an input
    mark = {serial_, static_cast<Edge>(2 * inputs.size())};
    inputs.push_back(slot.value);
  }
  return mark.edge;
}

void Trace::append(const Plan& plan, const Call& call) {
  signature.push_back(plan.id);
  nodes.push_back({&plan, static_cast<uint32_t>(signature.size()),
                   static_cast<uint32_t>(outputs.size()), static_cast<uint32_t>(ints.size()),
                   static_cast<uint32_t>(floats.size())});
  for (const Slot& slot : call.slots) signature.push_back(static_cast<uint32_t>(edge_of(slot)));
  ints.insert(ints.end(), call.ints.begin(), call.ints.end());
  floats.insert(floats.end(), call.floats.begin(), call.floats.end());
  random |= call.op.random;
  checks |= !plan.checks.empty();
  auto add_output = [&](const Dims& dims, c10::ScalarType dtype) {
    const Edge edge = static_cast<Edge>(2 * outputs.size() + 1);
    outputs.push_back(c10::make_intrusive<Value>(dims, dtype, ordinal));
    outputs.back()->mark = {serial_, edge};
  };
  for (const NewTensor& info : plan.created) add_output(info.value_dims, info.dtype);
  for (const Write& write : plan.writes) add_output(write.dims, write.dtype);
}

void Trace::clear() {
  nodes.clear();
  signature.clear();
  inputs.clear();
  outputs.clear();
  ints.clear();
  floats.clear();
  random = checks = false;
  serial_ = next_serial();
}

std::vector<uint32_t> Trace::live() const {
  std::vector<uint32_t> live;
  for (uint32_t place = 0; place < outputs.size(); ++place) {
    if (outputs[place].use_count() > 1) live.push_back(place);
  }
  return live;
}

std::vector<uint32_t> Trace::unshared_inputs() const {
  std::vector<uint32_t> unshared;
  for (uint32_t place = 0; place < inputs.size(); ++place) {
    if (inputs[place].use_count() == 1) unshared.push_back(place);
  }
  return unshared;
}

ProgramSource Trace::source(std::vector<uint32_t> live, std::vector<uint32_t> donated) const {
  ProgramSource source{{}, std::move(live), std::move(donated), ordinal};
  for (const Node& node : nodes) {
    ProgramSource::Step step{node.plan, {}};
    for (size_t slot = 0; slot < edges(node); ++slot) step.edges.push_back(edge(node, slot));
    source.steps.push_back(std::move(step));
  }
  return source;
}

}  // namespace torch_tpu
