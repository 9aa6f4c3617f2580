#include "eager/recorder.h"

#include "device/counters.h"
#include "eager/debug.h"
#include "eager/execute.h"
#include "eager/fusion.h"

namespace torch_tpu {

namespace {

std::atomic<EagerMode> mode{EagerMode::kStrict};
std::atomic<uint32_t> plan_count{0};

}  // namespace

EagerMode eager_mode() { return mode.load(std::memory_order_relaxed); }

void set_eager_mode(EagerMode value) {
  if (mode.exchange(value) == EagerMode::kFused && value != EagerMode::kFused) {
    flush_all(FlushReason::kMode);
  }
}

const Plan* Recorder::find(std::string_view key) const {
  const Plan* latest = latest_.load(std::memory_order_acquire);
  if (latest != nullptr && latest->key == key) return latest;
  std::shared_lock lock(mutex_);
  auto found = plans_.find(key);
  return found == plans_.end() ? nullptr : found->second.get();
}

std::unique_ptr<Plan> Recorder::make_plan(const Call& call, std::optional<int64_t> bound) {
  std::unique_ptr<Plan> plan = compiler().plan(call, bound);
  plan->op = &op_;
  plan->key = std::string(call.key.view());
  plan->id = plan_count++;
  plan->hash = std::hash<std::string>()(op_.name + plan->key);
  return plan;
}

const Plan& Recorder::plan_for(const Call& call) {
  const Plan* plan = find(call.key.view());
  if (plan == nullptr) {
    CompileTurn turn;
    plan = find(call.key.view());
    if (plan == nullptr) {
      std::unique_ptr<Plan> made = make_plan(call, std::nullopt);
      std::unique_lock lock(mutex_);
      plan = made.get();
      plans_.emplace(plan->key, std::move(made));
    }
  }
  latest_.store(plan, std::memory_order_release);
  return *plan;
}

// The plan for outputs of at most the next power of two: one compilation serves many lengths.
const Plan& Recorder::bucket_for(const Plan& plan, const Call& call, int64_t length) {
  int64_t bound = 1;
  while (bound < length) bound *= 2;
  auto find = [&]() -> const Plan* {
    std::shared_lock lock(mutex_);
    auto found = plan.buckets.find(bound);
    return found == plan.buckets.end() ? nullptr : found->second.get();
  };
  if (const Plan* found = find()) return *found;
  CompileTurn turn;
  if (const Plan* found = find()) return *found;
  std::unique_ptr<Plan> made = make_plan(call, bound);
  std::unique_lock lock(mutex_);
  return *(plan.buckets[bound] = std::move(made));
}

void Recorder::describe() {
  CompileTurn turn;
  if (!op_.described) compiler().describe(op_);
}

void Recorder::run(torch::jit::Stack& stack) {
  if (op_.check_numbers) op_.check_numbers(torch::jit::last(stack, op_.arguments.size()));
  counters().ops.add(1);
  if (!op_.described.load(std::memory_order_acquire)) [[unlikely]]
    describe();
  if (!op_.has_rule) {
    run_on_cpu(op_, stack);
    return;
  }
  Call call(op_, stack);
  if (eager_mode() != EagerMode::kFused || inspecting()) {
    run_now(plan_for(call), call);
    return;
  }
  Fusion& fusion = Fusion::of(call.ordinal);
  Fusion::Lock lock(fusion);
  const Plan* expected = fusion.expected(op_, call.key.view());
  const Plan& plan = expected != nullptr ? *expected : plan_for(call);
  call.clock.finish(Stage::kLookup);
  if (plan.fallback || plan.size_program) {
    fusion.flush(plan.fallback ? FlushReason::kUnfusable : FlushReason::kShape);
    run_now(plan, call);
  } else {
    fusion.record(plan, call);
  }
}

void Recorder::run_now(const Plan& plan, Call& call) {
  if (plan.fallback) {
    run_on_cpu(op_, call.stack);
    return;
  }
  if (plan.size_program) {
    int64_t length = execute_size(plan, call);
    execute(bucket_for(plan, call, length), call, length);
  } else {
    execute(plan, call);
  }
  if (inspecting()) [[unlikely]]
    inspect(op_, call.ordinal, call.stack);
}

}  // namespace torch_tpu
