// What happened so far: plain counts, kept without locks.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace torch_tpu {

class Counter {
 public:
  void add(int64_t amount) { value_.fetch_add(amount, std::memory_order_relaxed); }
  int64_t get() const { return value_.load(std::memory_order_relaxed); }
  void reset() { value_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

struct Counters {
  Counter ops, executions, python_entries, lowerings, compiles, memory_hits, disk_hits, shared_hits,
      fallbacks, host_syncs, flushes;

  using Entry = std::pair<std::string_view, Counter*>;
  std::array<Entry, 11> all() {
    return {{{"ops", &ops},
             {"executions", &executions},
             {"python_entries", &python_entries},
             {"lowerings", &lowerings},
             {"compiles", &compiles},
             {"memory_hits", &memory_hits},
             {"disk_hits", &disk_hits},
             {"shared_hits", &shared_hits},
             {"fallbacks", &fallbacks},
             {"host_syncs", &host_syncs},
             {"flushes", &flushes}}};
  }
};

inline Counters& counters() {
  static Counters instance;
  return instance;
}

}  // namespace torch_tpu
