#include "eager/fusion.h"

#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <array>

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
  // Never destroyed: tensors that outlive main() may still be pending.
  static auto& devices = *std::make_unique<std::array<std::unique_ptr<Fusion>, 128>>().release();
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (!devices[ordinal]) devices[ordinal] = std::make_unique<Fusion>(ordinal);
  return *devices[ordinal];
}

Fusion::Lock::Lock(Fusion& fusion) : lock_(fusion.mutex_, std::try_to_lock) {
  if (lock_.owns_lock()) return;
  ReleaseGil no_gil;
  lock_.lock();
}

const Plan* Fusion::expected(const Op& op, std::string_view key) const {
  const size_t place = trace_.nodes.size();
  if (followed_ == nullptr || place >= followed_->plans.size()) return nullptr;
  const Plan* plan = followed_->plans[place];
  return plan->op == &op && plan->key == key ? plan : nullptr;
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
    follow();
    const bool wanted = followed_ == nullptr || !plan.checks.empty();
    trace_.sites.push_back(wanted ? current_site() : followed_->sites[trace_.nodes.size() - 1]);
  }
  deliver(plan, call, {values.data(), values.size()});
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
  followed_ = nullptr;
}

// Whether the trace goes on as the one that it has been like.
void Fusion::follow() {
  if (followed_ == nullptr) return;
  const size_t first = trace_.nodes.back().first_edge - 1;
  const auto& words = trace_.signature;
  if (words.size() > followed_->node_words ||
      !std::equal(words.begin() + first, words.end(), followed_->signature.begin() + first)) {
    left_ = std::exchange(followed_, nullptr);
  }
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
    std::vector<uint32_t> live = trace.live();
    if (explaining()) [[unlikely]] {
      told.site = current_site();
      told.kept = live.size();
      for (uint32_t place : live) told.bytes += trace.outputs[place]->bytes();
    }
    if (!live.empty() || trace.checks) {  // else nobody can tell whether it ran
      Fused& fused = seen(trace, std::move(live), told);
      if (prepare(fused, trace, told)) {
        run_whole(fused, trace);
      } else {
        run_in_pieces(trace);
      }
    }
  } catch (const std::exception& error) {
    previous_ = followed_ = nullptr;
    left_ = nullptr;
    trace.fail_pending(error.what());
    throw;
  }
  if (explaining()) [[unlikely]]
    report(told);
  trace.clear();
  spare_.push_back(std::move(trace));
  release_collected();
}

// The trace's entry among those seen before; it is what to follow until it turns out otherwise.
Fused& Fusion::seen(Trace& trace, std::vector<uint32_t> live, FlushReport& told) {
  std::vector<uint32_t> donated = trace.unshared_inputs();
  std::vector<uint32_t>& signature = trace.signature;
  const size_t node_words = signature.size();
  append_places(signature, live);
  append_places(signature, donated);
  Fused* fused = followed_;
  if (fused == nullptr || fused->signature != signature) {
    if (fused != nullptr) left_ = fused;
    auto found = fused_.find(bytes_of(signature));
    fused = found != fused_.end() ? found->second.get() : &remember(trace, node_words, told);
    if (fused->live.empty() && fused->sightings == 0) {
      fused->live = std::move(live);
      fused->donated = std::move(donated);
    }
  }
  signature.resize(node_words);
  left_ = nullptr;
  if (previous_ != nullptr) previous_->next = fused;
  previous_ = fused;
  followed_ = fused->next;
  return *fused;
}

Fused& Fusion::remember(const Trace& trace, size_t node_words, FlushReport& told) {
  if (fused_.size() >= kRememberedTraces) forget_unused();
  auto made = std::make_unique<Fused>();
  made->signature = trace.signature;
  made->node_words = node_words;
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
  if (explaining()) [[unlikely]]
    tell_difference(*made, structure.latest != nullptr ? structure.latest : left_, told);
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

// Whether the trace's program can run now. Otherwise its ops run one by one, and a program is on
// its way unless the shapes change too often to be worth one.
bool Fusion::prepare(Fused& fused, const Trace& trace, FlushReport& told) {
  if (fused.state == Fused::State::kReady) {
    if (fused.program->loaded()) {
      if (std::exchange(fused.unproven, false)) structures_[fused.structure].unproven -= 1;
      told.outcome = Outcome::kHit;
      counters().memory_hits.add(1);
      return true;
    }
    fused.state = Fused::State::kSeen;
    fused.sightings = 0;
  }
  told.outcome = Outcome::kInPieces;
  if (fused.state == Fused::State::kCompiling) told.outcome = Outcome::kWaiting;
  if (fused.state != Fused::State::kSeen || fused.plans.size() == 1) return false;
  fused.sightings += 1;
  const ProgramSource source = trace.source(fused.live, fused.donated);
  CompileTurn turn;
  if (fused.sightings == 1) {
    if (ProgramPtr stored = compiler().find_stored(source)) {
      told.outcome = Outcome::kStored;
      adopt(fused, std::move(stored));
      return true;
    }
  }
  Structure& structure = structures_[fused.structure];
  if (structure.unproven >= kUnprovenPrograms && fused.sightings == 1) {
    told.outcome = Outcome::kChurning;
    return false;
  }
  structure.unproven += 1;
  fused.unproven = true;
  const bool pieces_exist = std::ranges::all_of(
      fused.plans, [](const Plan* plan) { return plan->programs.any() != nullptr; });
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
    return false;
  }
  try {
    fused.state = Fused::State::kCompiling;  // not forgotten meanwhile
    adopt(fused, compiler().compile(source));
    told.outcome = Outcome::kCompiled;
    return true;
  } catch (const std::exception& error) {
    fused.state = Fused::State::kInPieces;
    if (compiler().must_not_compile()) throw;
    compiler().report_failed_fusion(source, error.what());
    return false;
  }
}

void Fusion::adopt(Fused& fused, ProgramPtr program) {
  keep_resident(program);
  fused.program = std::move(program);
  fused.state = Fused::State::kReady;
}

void Fusion::run_whole(const Fused& fused, Trace& trace) {
  c10::SmallVector<PJRT_Buffer*, 32> inputs;
  for (const ValuePtr& input : trace.inputs) inputs.push_back(input->buffer().get());
  Outputs outputs = fused.program->launch({inputs.data(), inputs.size()},
                                          {trace.ints, trace.floats, trace.random}, trace.ordinal,
                                          fused.plans.back()->op->name.c_str());
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
  previous_ = followed_ = nullptr;
  left_ = nullptr;
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
