#include "eager/recorder.h"

#include <ATen/native/CPUFallback.h>

#include "device/counters.h"
#include "device/gil.h"
#include "eager/debug.h"
#include "eager/execute.h"

namespace torch_tpu {

namespace {

std::atomic<EagerMode> mode{EagerMode::kStrict};

std::unique_ptr<Compiler>& compiler_slot() {
  static std::unique_ptr<Compiler> instance;
  return instance;
}

// One compilation at a time. Taken before the GIL, never while holding it.
std::recursive_mutex& compile_mutex() {
  static std::recursive_mutex instance;
  return instance;
}

}  // namespace

EagerMode eager_mode() { return mode.load(std::memory_order_relaxed); }
void set_eager_mode(EagerMode value) { mode.store(value); }

void set_compiler(std::unique_ptr<Compiler> compiler) { compiler_slot() = std::move(compiler); }
Compiler& compiler() { return *compiler_slot(); }

const Plan* Recorder::find(std::string_view key) const {
  const Plan* latest = latest_.load(std::memory_order_acquire);
  if (latest != nullptr && latest->key == key) return latest;
  std::shared_lock lock(mutex_);
  auto found = plans_.find(key);
  return found == plans_.end() ? nullptr : found->second.get();
}

const Plan& Recorder::plan_for(const Call& call) {
  const Plan* plan = find(call.key.view());
  if (plan == nullptr) {
    ReleaseGil no_gil;
    std::lock_guard one_at_a_time(compile_mutex());
    plan = find(call.key.view());
    if (plan == nullptr) {
      std::unique_ptr<Plan> made = compiler().compile(call, std::nullopt);
      made->key = std::string(call.key.view());
      std::unique_lock lock(mutex_);
      plan = made.get();
      plans_.emplace(plan->key, std::move(made));
    }
  } else {
    counters().memory_hits.add(1);
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
  ReleaseGil no_gil;
  std::lock_guard one_at_a_time(compile_mutex());
  if (const Plan* found = find()) return *found;
  std::unique_ptr<Plan> made = compiler().compile(call, bound);
  std::unique_lock lock(mutex_);
  return *(plan.buckets[bound] = std::move(made));
}

void Recorder::run(torch::jit::Stack& stack) {
  if (op_.check_numbers) op_.check_numbers(torch::jit::last(stack, op_.arguments.size()));
  counters().ops.add(1);
  if (!op_.described.load(std::memory_order_acquire)) [[unlikely]] {
    ReleaseGil no_gil;
    std::lock_guard one_at_a_time(compile_mutex());
    if (!op_.described) compiler().describe(op_);
  }
  if (!op_.has_rule) {
    run_on_cpu(op_, stack);
    return;
  }
  Call call(op_, stack);
  const Plan& plan = plan_for(call);
  if (plan.fallback) {
    run_on_cpu(op_, stack);
    return;
  }
  if (plan.size_program) {
    int64_t length = execute_size(plan, call);
    execute(bucket_for(plan, call, length), call, length);
  } else {
    execute(plan, call);
  }
  if (inspecting()) [[unlikely]]
    inspect(op_, call.ordinal, stack);
}

void run_on_cpu(const Op& op, torch::jit::Stack& stack) {
  counters().fallbacks.add(1);
  compiler().report_fallback(op, stack);
  at::native::cpu_fallback(op.handle, &stack);
}

}  // namespace torch_tpu
