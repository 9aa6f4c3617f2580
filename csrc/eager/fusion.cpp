#include "eager/fusion.h"

#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <limits>

#include "device/counters.h"
#include "device/device.h"
#include "device/gil.h"
#include "eager/execute.h"

namespace torch_tpu {

namespace {

std::atomic<bool> async_compile{true};

// Programs that a structure may compile before one of them must have run a second time: shapes
// that change every step are left to programs that exist.
constexpr uint32_t kUnprovenPrograms = 3;

// Traces that were seen but never compiled; beyond this they are forgotten.
constexpr size_t kRememberedTraces = 4096;

std::string_view bytes_of(const std::vector<uint32_t>& words) {
  return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint32_t)};
}

void append_places(std::vector<uint32_t>& signature, const std::vector<uint32_t>& places) {
  signature.push_back(static_cast<uint32_t>(places.size()));
  signature.insert(signature.end(), places.begin(), places.end());
}

}  // namespace

Fusion& Fusion::of(Ordinal ordinal) {
  // One for every possible device, so that none is made under a lock. Never destroyed: tensors that
  // outlive main() may still be pending.
  static const auto& devices = *[] {
    auto all = std::make_unique<std::vector<std::unique_ptr<Fusion>>>();
    for (int i = 0; i <= std::numeric_limits<Ordinal>::max(); ++i) {
      all->push_back(std::make_unique<Fusion>(static_cast<Ordinal>(i)));
    }
    return all.release();
  }();
  return *devices[ordinal];
}

Fusion::Lock::Lock(Fusion& fusion) : lock_(fusion.mutex_, std::try_to_lock) {
  if (lock_.owns_lock()) return;
  ReleaseGil no_gil;
  lock_.lock();
}

const Plan* Fusion::expected(const Op& op, std::string_view key) const {
  if (foreseen_ == nullptr) return nullptr;
  const Plan* plan = foreseen_->plans[foreseen_place_];
  return plan->op == &op && plan->key == key ? plan : nullptr;
}

// What comes next, if all is as last time: a trace from its first node on.
void Fusion::foresee(const Fused* fused) {
  foreseen_ = fused;
  foreseen_place_ = 0;
}

// Goes on to the node after this one, of the next trace where a trace will be cut only later; or
// nowhere, where another call came than was foreseen.
void Fusion::advance(const Plan& plan) {
  if (foreseen_ == nullptr) return;
  if (foreseen_->plans[foreseen_place_] != &plan) {
    foreseen_ = nullptr;
  } else if (++foreseen_place_ == foreseen_->plans.size()) {
    foresee(foreseen_->next);
  }
}

void Fusion::record(const Plan& plan, Call& call) {
  watch_backward();
  cut(plan);
  if (call.op.random) call.draw_random();
  resize_arguments(plan, call);
  c10::SmallVector<ValuePtr, 4> values;
  if (plan.computes()) {
    const size_t first = trace_.outputs.size();
    trace_.append(plan, call);
    values.append(trace_.outputs.begin() + first, trace_.outputs.end());
    trace_.sites.push_back(site_of(plan));
    advance(plan);
  }
  deliver(plan, call, {values.data(), values.size()});
}

// The line of a call. One that was foreseen came from the same line last time; where an error may
// name it, it must be this one's.
Site Fusion::site_of(const Plan& plan) const {
  const bool known = foreseen_ != nullptr && foreseen_->plans[foreseen_place_] == &plan;
  return known && plan.checks.empty() ? foreseen_->sites[foreseen_place_] : current_site();
}

void Fusion::watch_backward() {
  const int backward = torch::autograd::get_current_graph_task_id();
  if (backward == backward_) return;
  backward_ = backward;
  if (backward == -1) return;
  torch::autograd::Engine::get_default_engine().queue_callback(
      [this] { flush(FlushReason::kBackward); });
}

void Fusion::cut(const Plan& plan) {
  if (trace_.nodes.size() >= Cuts::kWhole && !cuts_) run_chunks();
  if (cuts_ && cuts_->before(plan.hash)) run(take_trace(), FlushReason::kBudget);
}

// Runs a trace that grew too long up to the last place where it may be cut.
void Fusion::run_chunks() {
  Trace whole = take_trace();
  LastUses last_uses(whole);
  cuts_.emplace();
  uint32_t begin = 0;
  try {
    for (uint32_t end = 0; end < whole.nodes.size(); ++end) {
      if (!cuts_->before(whole.nodes[end].plan->hash)) continue;
      Trace chunk(whole.ordinal);
      chunk.take(whole, begin, end, last_uses);
      begin = end;
      run(std::move(chunk), FlushReason::kBudget);
    }
  } catch (const std::exception& error) {
    whole.fail_pending(error.what());
    throw;
  }
  trace_.take(whole, begin, static_cast<uint32_t>(whole.nodes.size()), last_uses);
  for (const Node& node : trace_.nodes) advance(*node.plan);
}

void Fusion::flush(FlushReason reason) {
  Lock lock(*this);
  cuts_.reset();
  if (trace_.nodes.empty()) {
    release_collected();
  } else {
    run(take_trace(), reason);
  }
}

// What was recorded so far. Python that runs while a program is made may record and flush too.
Trace Fusion::take_trace() {
  if (spare_.empty()) spare_.emplace_back(trace_.ordinal);
  std::swap(trace_, spare_.back());
  Trace taken = std::move(spare_.back());
  spare_.pop_back();
  return taken;
}

void Fusion::run(Trace trace, FlushReason reason) {
  counters().flushes.add(1);
  FlushReport told{reason, Outcome::kNothing, trace.nodes.size()};
  try {
    if (explaining()) [[unlikely]]
      told.site = current_site();
    Fused& fused = seen(trace, told);
    if (fused.live.empty() && !trace.checks) {
      told.outcome = Outcome::kNothing;  // nobody can tell whether it ran
    } else if (ProgramPtr program = prepare(fused, trace, told)) {
      run_whole(*program, fused, trace);
    } else {
      run_in_pieces(trace);
    }
  } catch (const std::exception& error) {
    previous_ = nullptr;
    foreseen_ = nullptr;
    trace.fail_pending(error.what());
    throw;
  }
  if (explaining()) [[unlikely]]
    report(told);
  trace.clear();
  spare_.push_back(std::move(trace));
  release_collected();
}

// The trace's entry among those seen before. What followed it last time is foreseen from now on.
Fused& Fusion::seen(Trace& trace, FlushReport& told) {
  std::vector<uint32_t> live = trace.live(), donated = trace.unshared_inputs();
  if (explaining()) [[unlikely]] {
    told.kept = live.size();
    for (uint32_t place : live) told.bytes += trace.outputs[place]->bytes();
  }
  std::vector<uint32_t>& signature = trace.signature;
  const size_t node_words = signature.size();
  append_places(signature, live);
  append_places(signature, donated);
  Fused* fused = previous_ != nullptr ? previous_->next : nullptr;
  if (fused == nullptr || fused->signature != signature) {
    auto found = fused_.find(bytes_of(signature));
    fused = found != fused_.end() ? found->second.get()
                                  : &remember(trace, std::move(live), std::move(donated), told);
  }
  signature.resize(node_words);
  if (previous_ != nullptr) previous_->next = fused;
  previous_ = fused;
  foresee(fused->next);
  return *fused;
}

Fused& Fusion::remember(const Trace& trace, std::vector<uint32_t> live,
                        std::vector<uint32_t> donated, FlushReport& told) {
  if (fused_.size() >= kRememberedTraces) forget_unused();
  auto made = std::make_unique<Fused>();
  made->signature = trace.signature;
  made->live = std::move(live);
  made->donated = std::move(donated);
  made->sites = trace.sites;
  for (size_t i = 0; i < trace.nodes.size(); ++i) {
    const Plan* plan = trace.nodes[i].plan;
    made->plans.push_back(plan);
    made->structure = made->structure * 0x9E3779B97F4A7C15u + reinterpret_cast<uintptr_t>(plan->op);
    for (const Check& check : plan->checks) {
      made->checks.push_back(check);
      made->checks.back().site = trace.sites[i];
    }
  }
  Structure& structure = structures_[made->structure];
  if (explaining()) [[unlikely]] {
    const Fused* foreseen = previous_ != nullptr ? previous_->next : nullptr;
    tell_difference(*made, structure.latest != nullptr ? structure.latest : foreseen, told);
  }
  structure.latest = made.get();
  Fused& fused = *made;
  fused_.emplace(bytes_of(fused.signature), std::move(made));
  return fused;
}

// The first op that a trace doesn't share with the nearest one before.
void Fusion::tell_difference(const Fused& made, const Fused* nearest, FlushReport& told) {
  if (nearest == nullptr) return;
  told.compared = true;
  const auto [now, before] = std::ranges::mismatch(made.plans, nearest->plans);
  if (now == made.plans.end() && before == nearest->plans.end()) return;
  told.difference = now - made.plans.begin();
  if (now != made.plans.end()) {
    told.now = *now;
    told.op_site = made.sites[told.difference];
  }
  if (before != nearest->plans.end()) told.before = *before;
}

// The trace's program, if it can run now. Otherwise its ops run one by one, and a program is on its
// way unless the shapes change too often to be worth one.
ProgramPtr Fusion::prepare(Fused& fused, const Trace& trace, FlushReport& told) {
  if (fused.state == Fused::State::kReady) {
    if (ProgramPtr program = fused.program->load()) {
      if (std::exchange(fused.unproven, false)) structures_[fused.structure].unproven -= 1;
      told.outcome = Outcome::kHit;
      counters().memory_hits.add(1);
      return program;
    }
    fused.state = Fused::State::kSeen;
    fused.sightings = 0;
  }
  told.outcome = Outcome::kInPieces;
  if (fused.state == Fused::State::kCompiling) told.outcome = Outcome::kWaiting;
  if (fused.state != Fused::State::kSeen || fused.plans.size() == 1) return nullptr;
  fused.sightings += 1;
  const ProgramSource source = trace.source(fused.live, fused.donated);
  CompileTurn turn;
  if (fused.sightings == 1) {
    if (ProgramPtr stored = compiler().find_stored(source)) {
      told.outcome = Outcome::kStored;
      return adopt(fused, std::move(stored));
    }
  }
  Structure& structure = structures_[fused.structure];
  if (structure.unproven >= kUnprovenPrograms && fused.sightings == 1) {
    told.outcome = Outcome::kChurning;
    return nullptr;
  }
  structure.unproven += 1;
  fused.unproven = true;
  const bool pieces_exist =
      std::ranges::all_of(fused.plans, [](const Plan* plan) { return plan->programs.any(); });
  if (async_compile && pieces_exist) {
    told.outcome = Outcome::kCompiling;
    fused.state = Fused::State::kCompiling;
    compiler().compile_later(source, [&fused](ProgramPtr program) {
      if (program) {
        adopt(fused, std::move(program));
      } else {
        fused.state = Fused::State::kInPieces;
      }
    });
    return nullptr;
  }
  try {
    fused.state = Fused::State::kCompiling;  // not forgotten meanwhile
    ProgramPtr program = adopt(fused, compiler().compile(source));
    told.outcome = Outcome::kCompiled;
    return program;
  } catch (const std::exception& error) {
    fused.state = Fused::State::kInPieces;
    if (compiler().must_not_compile()) throw;
    compiler().report_failed_fusion(source, error.what());
    return nullptr;
  }
}

ProgramPtr Fusion::adopt(Fused& fused, ProgramPtr program) {
  fused.program = keep_resident(program);
  fused.state = Fused::State::kReady;
  return program;
}

void Fusion::run_whole(const Program& program, const Fused& fused, Trace& trace) {
  c10::SmallVector<PJRT_Buffer*, 32> inputs;
  for (const ValuePtr& input : trace.inputs) inputs.push_back(input->buffer().get());
  Outputs outputs =
      program.launch({inputs.data(), inputs.size()}, {trace.ints, trace.floats, trace.random},
                     trace.ordinal, fused.plans.back()->op->name.c_str());
  for (uint32_t input : fused.donated) trace.inputs[input].reset();
  const PJRT_Api* api = Runtime::get().client().plugin()->api();
  size_t place = 0;
  for (uint32_t live : fused.live) {
    trace.outputs[live]->fulfil(pjrt::Buffer(api, outputs[place++]));
  }
  if (!fused.checks.empty()) {
    Runtime::get().report_later(trace.ordinal,
                                {pjrt::Buffer(api, outputs[place]), &fused.checks, {}});
  }
}

// Traces that were seen once are many where shapes keep changing.
void Fusion::forget_unused() {
  std::erase_if(fused_,
                [](const auto& entry) { return entry.second->state == Fused::State::kSeen; });
  for (auto& [signature, fused] : fused_) {
    fused->next = nullptr;
    fused->unproven = false;
  }
  structures_.clear();
  previous_ = nullptr;
  foreseen_ = nullptr;
}

void register_fusion() {
  Runtime::get().set_flush(
      [](Ordinal ordinal, FlushReason reason) { Fusion::of(ordinal).flush(reason); });
}

void set_async_compile(bool enabled) { async_compile = enabled; }

void flush_all(FlushReason reason) {
  if (!Runtime::get().initialized()) return;
  for (Ordinal i = 0; i < Runtime::get().device_count(); ++i) Fusion::of(i).flush(reason);
}

}  // namespace torch_tpu
