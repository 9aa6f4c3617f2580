// The process's PJRT client, which device is current, and what is still running on each device.
#pragma once

#include <c10/core/Device.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/site.h"
#include "pjrt/pjrt.h"

namespace torch_tpu {

using Ordinal = c10::DeviceIndex;

// What Python's `resolve` names: the plugin's file and its create options.
struct RuntimeChoice {
  std::string plugin_path;
  std::vector<pjrt::Option> options;
};

// An error that a program reports by value: the code that it gives and what to raise for each.
struct Check {
  std::string error;    // name of the Python exception class
  std::string message;  // "{value}" stands for the value at fault
  Site site;            // of the op, where it is known
};

// One execution that may not have finished.
struct InFlight {
  pjrt::Event done;
  const char* op;  // interned name
};

// A program's pending report on its checks; read at the next synchronisation.
struct PendingCheck {
  pjrt::Buffer code;  // int64, see torch_tpu/lowering/checks.py
  const std::vector<Check>* checks;
  Site site;  // for checks that have none of their own
};

// Why recorded ops are run.
enum class FlushReason : uint8_t {
  kValue,      // the host needs a value
  kShape,      // a value decides a shape
  kUnfusable,  // an op that runs on its own, such as a CPU fallback
  kSynchronize,
  kEvent,
  kStream,
  kBackward,   // the end of a backward pass
  kOptimizer,  // the end of an optimizer's step
  kBudget,     // a trace that nothing else ended
  kMode,       // the eager mode or an inspection changed
};

class Runtime {
 public:
  static Runtime& get();

  // What raises the Python exception that a check names, with the line that it comes from.
  using RaiseCheck = void (*)(const Check&, int64_t value, const Site&);
  void set_raise_check(RaiseCheck raise_check) { raise_check_ = raise_check; }

  // What runs the recorded ops of a device; until it is set there are none.
  using Flush = void (*)(Ordinal, FlushReason);
  void set_flush(Flush flush) { flush_ = flush; }
  void flush(Ordinal ordinal, FlushReason reason) {
    if (flush_ != nullptr) flush_(ordinal, reason);
  }

  void set_resolver(std::function<RuntimeChoice()> resolver);
  // The client, created on first use. Throws where the plugin can't be loaded and in a forked
  // child.
  pjrt::Client& client();
  bool initialized() const { return client_ready_.load(std::memory_order_acquire); }
  bool in_bad_fork() const { return bad_fork_; }
  const std::string& plugin_path() const { return plugin_path_; }

  Ordinal device_count();
  Ordinal current_device() const;
  void set_current_device(Ordinal ordinal);
  Ordinal exchange_device(Ordinal ordinal);
  // `ordinal` or, for -1, the current device. Throws for a device that does not exist.
  Ordinal checked(Ordinal ordinal);

  void started(Ordinal ordinal, pjrt::Event done, const char* op);
  void report_later(Ordinal ordinal, PendingCheck check);
  // Waits for everything started on a device, then raises what went wrong there, if anything.
  void synchronize(Ordinal ordinal);
  // Raises failed checks; called wherever the host waits for a value.
  void raise_failed_checks(Ordinal ordinal);
  // Whether nothing is running on a device now.
  bool idle(Ordinal ordinal);
  // Calls `done` once all that runs on a device now has finished, maybe on another thread.
  void when_idle(Ordinal ordinal, std::function<void()> done);

 private:
  struct Device {
    std::mutex mutex;
    std::deque<InFlight> running;
    std::vector<PendingCheck> checks;
    std::string failure;  // the first device error not yet raised
    void drop_finished();
  };

  Runtime();
  void create_client();

  std::function<RuntimeChoice()> resolver_;
  RaiseCheck raise_check_ = nullptr;
  Flush flush_ = nullptr;
  std::recursive_mutex create_mutex_;
  std::shared_ptr<pjrt::Client> client_;
  std::atomic<bool> client_ready_{false};
  std::string plugin_path_;
  bool bad_fork_ = false;
  std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace torch_tpu
