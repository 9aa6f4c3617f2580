// The recorder: every op on a tpu tensor comes through here.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>

#include <shared_mutex>
#include <string_view>
#include <unordered_map>

#include "eager/op.h"
#include "eager/plan.h"

namespace torch_tpu {

// When recorded work is run: debug and strict run every op at once, and debug also waits; fused
// lets ops gather.
enum class EagerMode : int { kStrict = 0, kFused = 1, kDebug = 2 };

EagerMode eager_mode();
void set_eager_mode(EagerMode mode);

// What debug mode does besides waiting.
void set_nan_checks(bool enabled);
void set_op_printing(bool enabled);

// The kernel of one op: looks the call's plan up, or has one made, and runs or defers it.
class Recorder final : public c10::OperatorKernel {
 public:
  explicit Recorder(const c10::OperatorHandle& handle) : op_(handle) {}

  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
    run(*stack);
  }
  void run(torch::jit::Stack& stack);

 private:
  void describe();
  void run_now(const Plan& plan, Call& call);
  const Plan* find(std::string_view key) const;
  const Plan& plan_for(const Call& call);
  const Plan& bucket_for(const Plan& plan, const Call& call, int64_t length);
  std::unique_ptr<Plan> make_plan(const Call& call, std::optional<int64_t> bound);

  Op op_;
  std::atomic<const Plan*> latest_{nullptr};
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::string_view, std::unique_ptr<Plan>> plans_;
};

// Runs an ATen op through its recorder though the dispatcher would not send it there.
void record(const char* name, const char* overload, torch::jit::Stack& stack);

void register_kernels();

}  // namespace torch_tpu
