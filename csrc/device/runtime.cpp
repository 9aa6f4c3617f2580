#include "device/runtime.h"

#include <c10/util/Exception.h>
#include <pthread.h>

#include <cstddef>
#include <new>

#include "device/counters.h"

namespace torch_tpu {

namespace {

thread_local Ordinal current_ordinal = 0;

// A code's low bits tell which check failed, those above the value at fault.
constexpr int kValueBits = 20;

// Checks are read one by one, so a loop that never synchronises must not pile them up.
constexpr size_t kMaxPendingChecks = 64;

}  // namespace

Runtime& Runtime::get() {
  // Never destroyed: tensors that outlive main() still free their buffers through the client.
  alignas(Runtime) static std::byte memory[sizeof(Runtime)];
  static Runtime& runtime = *::new (memory) Runtime();
  return runtime;
}

Runtime::Runtime() {
  pthread_atfork(nullptr, nullptr, [] {
    Runtime& runtime = Runtime::get();
    runtime.bad_fork_ = runtime.initialized();
  });
}

void Runtime::set_resolver(std::function<RuntimeChoice()> resolver) {
  resolver_ = std::move(resolver);
}

pjrt::Client& Runtime::client() {
  if (!initialized() || bad_fork_) [[unlikely]] {
    create_client();
  }
  return *client_;
}

void Runtime::create_client() {
  TORCH_CHECK(!bad_fork_,
              "Cannot re-initialize TPU in forked subprocess. To use TPU with multiprocessing, you "
              "must use the 'spawn' start method");
  TORCH_CHECK(resolver_, "torch_tpu is not registered: import torch_tpu before using a tpu device");
  // The choice is made before the lock is taken: it needs the GIL, which a thread that waits for
  // this lock may hold.
  RuntimeChoice choice = resolver_();
  std::lock_guard lock(create_mutex_);
  if (initialized()) return;
  auto plugin = pjrt::Plugin::load(choice.plugin_path);
  client_ = pjrt::Client::create(std::move(plugin), choice.options);
  plugin_path_ = choice.plugin_path;
  for (size_t i = 0; i < client_->devices().size(); ++i) {
    devices_.push_back(std::make_unique<Device>());
  }
  client_ready_.store(true, std::memory_order_release);
}

Ordinal Runtime::device_count() { return static_cast<Ordinal>(client().devices().size()); }

Ordinal Runtime::current_device() const { return current_ordinal; }

void Runtime::set_current_device(Ordinal ordinal) { current_ordinal = checked(ordinal); }

Ordinal Runtime::exchange_device(Ordinal ordinal) {
  Ordinal previous = current_ordinal;
  if (ordinal != previous) set_current_device(ordinal);
  return previous;
}

Ordinal Runtime::checked(Ordinal ordinal) {
  if (ordinal == -1) return current_ordinal;
  Ordinal count = device_count();
  TORCH_CHECK(ordinal >= 0 && ordinal < count, "TPU error: invalid device ordinal ", int(ordinal),
              ": this process has ", int(count), count == 1 ? " device" : " devices");
  return ordinal;
}

void Runtime::Device::drop_finished() {
  while (!running.empty() && running.front().done.ready()) {
    try {
      running.front().done.wait();  // ready: returns at once, throws what went wrong
    } catch (const pjrt::Error& error) {
      if (failure.empty()) failure = std::string(running.front().op) + ": " + error.what();
    }
    running.pop_front();
  }
}

void Runtime::started(Ordinal ordinal, pjrt::Event done, const char* op) {
  Device& device = *devices_[ordinal];
  std::lock_guard lock(device.mutex);
  device.drop_finished();
  device.running.push_back({std::move(done), op});
}

void Runtime::report_later(Ordinal ordinal, PendingCheck check) {
  Device& device = *devices_[ordinal];
  bool full;
  {
    std::lock_guard lock(device.mutex);
    device.checks.push_back(std::move(check));
    full = device.checks.size() >= kMaxPendingChecks;
  }
  if (full) raise_failed_checks(ordinal);
}

void Runtime::raise_failed_checks(Ordinal ordinal) {
  Device& device = *devices_[ordinal];
  std::vector<PendingCheck> pending;
  {
    std::lock_guard lock(device.mutex);
    pending.swap(device.checks);
  }
  for (PendingCheck& check : pending) {
    int64_t code = 0;
    check.code.to_host(&code, sizeof(code)).wait();
    if (code == 0) continue;
    const int64_t place = code & ((int64_t{1} << kValueBits) - 1);
    const Check& failed = (*check.checks)[place - 1];
    raise_check_(failed, code >> kValueBits, failed.site.file ? failed.site : check.site);
  }
}

void Runtime::synchronize(Ordinal ordinal) {
  client();
  flush(checked(ordinal), FlushReason::kSynchronize);
  Device& device = *devices_[checked(ordinal)];
  counters().host_syncs.add(1);
  std::deque<InFlight> running;
  std::string failure;
  {
    std::lock_guard lock(device.mutex);
    running.swap(device.running);
    failure.swap(device.failure);
  }
  for (InFlight& each : running) {
    try {
      each.done.wait();
    } catch (const pjrt::Error& error) {
      if (failure.empty()) failure = std::string(each.op) + ": " + error.what();
    }
  }
  raise_failed_checks(checked(ordinal));
  TORCH_CHECK(failure.empty(), "TPU error in ", failure);
}

bool Runtime::idle(Ordinal ordinal) {
  client();
  flush(checked(ordinal), FlushReason::kEvent);
  Device& device = *devices_[checked(ordinal)];
  std::lock_guard lock(device.mutex);
  device.drop_finished();
  return device.running.empty();
}

void Runtime::when_idle(Ordinal ordinal, std::function<void()> done) {
  client();
  flush(checked(ordinal), FlushReason::kEvent);
  Device& device = *devices_[checked(ordinal)];
  struct Countdown {
    std::atomic<size_t> left;
    std::function<void()> done;
    void step() {
      if (left.fetch_sub(1) == 1) done();
    }
  };
  auto countdown = std::make_shared<Countdown>();
  countdown->left = 1;
  countdown->done = std::move(done);
  {
    std::lock_guard lock(device.mutex);
    device.drop_finished();
    countdown->left += device.running.size();
    for (const InFlight& each : device.running) {
      each.done.on_ready([countdown](const std::string&) { countdown->step(); });
    }
  }
  countdown->step();
}

}  // namespace torch_tpu
