#include "python/exit.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd.h>

#include <chrono>
#include <future>
#include <thread>

#include "device/gil.h"
#include "device/runtime.h"

namespace torch_tpu {

namespace {

// A thread runs its passes in turn, so the end of one is the end of those before. This one comes
// from a thread without Python, makes no program and has no context to drop.
void run_empty_pass(Ordinal ordinal) {
  const auto on_device = at::device(c10::Device(c10::DeviceType::PrivateUse1, ordinal));
  const at::Tensor leaf = at::empty({1}, on_device).requires_grad_();
  torch::autograd::grad({leaf.view({1, 1})}, {leaf}, {at::empty({1, 1}, on_device)});
}

}  // namespace

void finish_backward() {
  constexpr auto kLongest =
      std::chrono::seconds(1);  // a device that hangs must not keep the process
  if (!Runtime::get().initialized() || Runtime::get().in_bad_fork()) return;
  const ReleaseGil no_gil;
  for (Ordinal ordinal = 0; ordinal < Runtime::get().device_count(); ++ordinal) {
    std::promise<void> done;
    std::future<void> finished = done.get_future();
    std::thread([ordinal, done = std::move(done)]() mutable {
      try {
        run_empty_pass(ordinal);
      } catch (const std::exception&) {  // nothing is left that could tell of it
      }
      done.set_value();
    }).detach();
    finished.wait_for(kLongest);
  }
}

}  // namespace torch_tpu
