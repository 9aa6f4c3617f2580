#include "eager/trace.h"

namespace torch_tpu {

uint64_t Trace::next_serial() {
  static std::atomic<uint64_t> serial{0};
  return ++serial;
}

void Trace::begin_node(const Plan& plan) {
  signature.push_back(plan.id);
  nodes.push_back({&plan, static_cast<uint32_t>(signature.size()),
                   static_cast<uint32_t>(outputs.size()), static_cast<uint32_t>(ints.size()),
                   static_cast<uint32_t>(floats.size())});
  random |= plan.op->random;
  checks |= !plan.checks.empty();
}

Edge Trace::edge_of(const ValuePtr& value) {
  if (!value) return kUnfilled;
  Value::Mark& mark = value->mark;
  if (mark.trace != serial_) {  // not seen before: an input
    mark = {serial_, static_cast<Edge>(2 * inputs.size())};
    inputs.push_back(value);
  }
  return mark.edge;
}

void Trace::add_output(ValuePtr value) {
  value->mark = {serial_, static_cast<Edge>(2 * outputs.size() + 1)};
  outputs.push_back(std::move(value));
}

void Trace::append(const Plan& plan, const Call& call) {
  begin_node(plan);
  for (const Slot& slot : call.slots) {
    signature.push_back(static_cast<uint32_t>(edge_of(slot.value)));
  }
  ints.insert(ints.end(), call.ints.begin(), call.ints.end());
  floats.insert(floats.end(), call.floats.begin(), call.floats.end());
  for (const NewTensor& info : plan.created) {
    add_output(c10::make_intrusive<Value>(info.value_dims, info.dtype, ordinal));
  }
  for (const Write& write : plan.writes) {
    add_output(c10::make_intrusive<Value>(write.dims, write.dtype, ordinal));
  }
}

void Trace::take(Trace& from, uint32_t begin, uint32_t end, LastUses& last_uses) {
  for (uint32_t place = begin; place < end; ++place) {
    const Node& node = from.nodes[place];
    begin_node(*node.plan);
    sites.push_back(from.sites[place]);
    for (size_t slot = 0; slot < from.edges(node); ++slot) {
      const Edge edge = from.edge(node, slot);
      const Edge own = edge == kUnfilled ? kUnfilled : edge_of(from.value(edge));
      signature.push_back(static_cast<uint32_t>(own));
    }
    const auto node_ints = from.ints_of(place);
    const auto node_floats = from.floats_of(place);
    ints.insert(ints.end(), node_ints.begin(), node_ints.end());
    floats.insert(floats.end(), node_floats.begin(), node_floats.end());
    for (uint32_t output = 0; output < node.plan->outputs(); ++output) {
      add_output(from.outputs[node.first_output + output]);
    }
  }
  auto let_go = [end](std::vector<ValuePtr>& values, const std::vector<uint32_t>& uses,
                      size_t count) {
    for (size_t i = 0; i < count; ++i) {
      if (uses[i] == LastUses::kNever || uses[i] < end) values[i].reset();
    }
  };
  let_go(from.inputs, last_uses.inputs, from.inputs.size());
  const size_t made = end < from.nodes.size() ? from.nodes[end].first_output : from.outputs.size();
  let_go(from.outputs, last_uses.outputs, made);
}

void Trace::fail_pending(const std::string& reason) {
  for (const ValuePtr& output : outputs) {
    if (output && output->pending()) output->fail(reason);
  }
}

void Trace::clear() {
  nodes.clear();
  sites.clear();
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

std::span<const int64_t> Trace::ints_of(uint32_t place) const {
  const size_t first = nodes[place].first_int;
  const size_t end = place + 1 < nodes.size() ? nodes[place + 1].first_int : ints.size();
  return {ints.data() + first, end - first};
}

std::span<const double> Trace::floats_of(uint32_t place) const {
  const size_t first = nodes[place].first_float;
  const size_t end = place + 1 < nodes.size() ? nodes[place + 1].first_float : floats.size();
  return {floats.data() + first, end - first};
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

LastUses::LastUses(const Trace& trace)
    : inputs(trace.inputs.size(), kNever), outputs(trace.outputs.size(), kNever) {
  for (uint32_t place = 0; place < trace.nodes.size(); ++place) {
    const Node& node = trace.nodes[place];
    for (size_t slot = 0; slot < trace.edges(node); ++slot) {
      const Edge edge = trace.edge(node, slot);
      if (edge != kUnfilled) of(edge) = place;
    }
  }
}

}  // namespace torch_tpu
