// Where the host's time goes, op by op: measured when asked.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>

namespace torch_tpu {

enum class Stage : uint8_t {
  kKey,      // the call's arguments to slots, numbers and key
  kLookup,   // the plan and the program
  kLaunch,   // PJRT's execute, with its inputs and its event
  kDeliver,  // Values, tensors, results
};

class StageTimes {
 public:
  static constexpr std::array<std::string_view, 4> kNames = {"key", "lookup", "launch", "deliver"};

  std::atomic<bool> enabled{false};
  std::array<std::atomic<int64_t>, 4> nanoseconds{};

  static StageTimes& instance() {
    static StageTimes times;
    return times;
  }
};

// Times the stages of one op, one after the other.
class StageClock {
 public:
  StageClock() : enabled_(StageTimes::instance().enabled.load(std::memory_order_relaxed)) {
    if (enabled_) [[unlikely]]
      last_ = Clock::now();
  }
  void finish(Stage stage) {
    if (!enabled_) [[likely]]
      return;
    const Clock::time_point now = Clock::now();
    StageTimes::instance().nanoseconds[static_cast<size_t>(stage)] +=
        std::chrono::duration_cast<std::chrono::nanoseconds>(now - last_).count();
    last_ = now;
  }

 private:
  using Clock = std::chrono::steady_clock;
  const bool enabled_;
  Clock::time_point last_;
};

}  // namespace torch_tpu
