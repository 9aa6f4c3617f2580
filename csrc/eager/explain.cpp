#include "eager/explain.h"

#include <atomic>
#include <mutex>

namespace torch_tpu {

namespace {

struct Reports {
  std::atomic<bool> enabled{false};
  std::mutex mutex;
  std::vector<FlushReport> all;
};

Reports& reports() {
  static Reports instance;
  return instance;
}

}  // namespace

bool explaining() { return reports().enabled.load(std::memory_order_relaxed); }
void set_explaining(bool enabled) { reports().enabled = enabled; }

void report(FlushReport report) {
  std::lock_guard lock(reports().mutex);
  reports().all.push_back(std::move(report));
}

std::vector<FlushReport> take_reports() {
  std::lock_guard lock(reports().mutex);
  return std::exchange(reports().all, {});
}

}  // namespace torch_tpu
