// The storage allocator: hands out cells and answers torch.accelerator.memory_*.
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "device/device.h"
#include "device/value.h"

namespace torch_tpu {

namespace {

class TpuAllocator final : public c10::DeviceAllocator {
 public:
  // Memory comes with the first write, in the shape of what is written.
  c10::DataPtr allocate(size_t) override { return Cell::allocate(Runtime::get().current_device()); }

  void copy_data(void* destination, const void* source, std::size_t) const override {
    static_cast<Cell*>(destination)->store(static_cast<const Cell*>(source)->load());
  }

  bool initialized() override { return Runtime::get().initialized(); }
  void emptyCache(c10::MempoolId_t) override {}  // nothing is cached: PJRT owns the pools
  void recordStream(const c10::DataPtr&, c10::Stream) override {}

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    using c10::CachingAllocator::StatType;
    MemoryUse& use = MemoryUse::of(Runtime::get().checked(device));
    c10::CachingAllocator::Stat bytes;
    bytes.current = use.bytes_in_use;
    bytes.peak = use.peak_bytes;
    bytes.allocated = use.allocated_total;
    bytes.freed = use.freed_total;
    c10::CachingAllocator::Stat blocks;
    blocks.current = use.live_allocations();
    blocks.peak = blocks.current;
    blocks.allocated = use.allocations;
    blocks.freed = use.frees;
    c10::CachingDeviceAllocator::DeviceStats stats;
    auto all = static_cast<size_t>(StatType::AGGREGATE);
    for (auto* stat : {&stats.allocated_bytes, &stats.active_bytes, &stats.reserved_bytes,
                       &stats.requested_bytes}) {
      (*stat)[all] = bytes;
    }
    stats.allocation[all] = stats.active[all] = blocks;
    stats.num_ooms = use.out_of_memory;
    return stats;
  }

  void resetAccumulatedStats(c10::DeviceIndex device) override {
    MemoryUse::of(Runtime::get().checked(device)).reset_accumulated();
  }
  void resetPeakStats(c10::DeviceIndex device) override {
    MemoryUse::of(Runtime::get().checked(device)).reset_peak();
  }

  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    Ordinal ordinal = Runtime::get().checked(device);
    int64_t total = memory_limit(ordinal);
    return {static_cast<size_t>(std::max<int64_t>(0, total - MemoryUse::of(ordinal).bytes_in_use)),
            static_cast<size_t>(total)};
  }
};

// Host memory that transfers may read directly: page-aligned, and known to us by its range.
class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* data = c10::alloc_cpu(bytes);
    if (data != nullptr) remember(data);
    return {data, data, &free_pinned, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_pinned; }
  void copy_data(void* destination, const void* source, std::size_t count) const override {
    default_copy_data(destination, source, count);
  }
  static bool owns(const void* data) {
    std::lock_guard lock(mutex());
    return known().contains(data);
  }

 private:
  static std::mutex& mutex() {
    static std::mutex instance;
    return instance;
  }
  static std::set<const void*>& known() {
    static std::set<const void*> instance;
    return instance;
  }
  static void remember(const void* data) {
    std::lock_guard lock(mutex());
    known().insert(data);
  }
  static void free_pinned(void* data) {
    {
      std::lock_guard lock(mutex());
      known().erase(data);
    }
    c10::free_cpu(data);
  }
};

}  // namespace

c10::DeviceAllocator* allocator() {
  static TpuAllocator instance;
  return &instance;
}

c10::Allocator* pinned_allocator() {
  static PinnedAllocator instance;
  return &instance;
}

bool is_pinned(const void* data) { return PinnedAllocator::owns(data); }

void register_allocator() { c10::SetAllocator(c10::DeviceType::PrivateUse1, allocator()); }

int64_t memory_limit(Ordinal ordinal) {
  pjrt::MemoryStats stats;
  if (Runtime::get().client().memory_stats(ordinal, &stats) && stats.bytes_limit > 0) {
    return stats.bytes_limit;
  }
  return sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE);
}

}  // namespace torch_tpu
