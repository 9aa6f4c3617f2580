#include "eager/program.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <string>
#include <unordered_map>

#include "device/counters.h"

namespace torch_tpu {

namespace {

// Every program that memory holds, to find the one that ran longest ago.
class Residents {
 public:
  ResidentPtr add(ProgramPtr program) {
    auto resident = std::make_shared<std::atomic<ProgramPtr>>(std::move(program));
    std::lock_guard lock(mutex_);
    std::erase_if(residents_, [](const Weak& each) { return last_launch(each) == kGone; });
    residents_.push_back(resident);
    while (residents_.size() > max_) evict_oldest();
    return resident;
  }
  void set_max(size_t max) {
    std::lock_guard lock(mutex_);
    max_ = max;
  }
  static Residents& instance() {
    alignas(Residents) static std::byte memory[sizeof(Residents)];
    static Residents& residents = *::new (memory) Residents();
    return residents;
  }

 private:
  using Weak = std::weak_ptr<std::atomic<ProgramPtr>>;
  static constexpr uint64_t kGone = 0;  // launches count from 1

  static uint64_t last_launch(const Weak& each) {
    const ResidentPtr resident = each.lock();
    const ProgramPtr program = resident ? resident->load() : nullptr;
    return program ? program->last_launch() : kGone;
  }
  void evict_oldest() {
    // The last one is about to run.
    auto oldest = std::ranges::min_element(residents_.begin(), residents_.end() - 1, {},
                                           [](const Weak& each) { return last_launch(each); });
    if (const ResidentPtr resident = oldest->lock()) resident->store(nullptr);
    residents_.erase(oldest);
  }

  std::mutex mutex_;
  size_t max_ = 4096;
  std::vector<Weak> residents_;
};

uint64_t next_launch() {
  static std::atomic<uint64_t> clock{0};
  return clock.fetch_add(1, std::memory_order_relaxed) + 1;
}

// Device copies of the numbers that calls pass, by content.
class NumberCache {
 public:
  BufferPtr get(pjrt::ElementType type, const void* numbers, size_t count, Ordinal ordinal) {
    std::string key(static_cast<const char*>(numbers), count * kNumberBytes);
    key.push_back(static_cast<char>(type));
    key.push_back(static_cast<char>(ordinal));
    {
      std::lock_guard lock(mutex_);
      if (auto found = places_.find(key); found != places_.end()) {
        recent_.splice(recent_.begin(), recent_, found->second);
        return found->second->second;
      }
    }
    BufferPtr buffer = upload(type, numbers, count, ordinal);
    std::lock_guard lock(mutex_);
    recent_.emplace_front(key, buffer);
    places_[key] = recent_.begin();
    if (recent_.size() > kCapacity) {
      places_.erase(recent_.back().first);
      recent_.pop_back();
    }
    return buffer;
  }

  static BufferPtr upload(pjrt::ElementType type, const void* numbers, size_t count,
                          Ordinal ordinal) {
    const int64_t dims[] = {static_cast<int64_t>(count)};
    return std::make_shared<pjrt::Buffer>(
        Runtime::get().client().from_host(numbers, type, dims, ordinal));
  }

  static NumberCache& instance() {
    alignas(NumberCache) static std::byte memory[sizeof(NumberCache)];
    static NumberCache& cache = *::new (memory) NumberCache();
    return cache;
  }

 private:
  static constexpr size_t kNumberBytes = 8, kCapacity = 4096;
  using Entries = std::list<std::pair<std::string, BufferPtr>>;

  std::mutex mutex_;
  Entries recent_;
  std::unordered_map<std::string, Entries::iterator> places_;
};

constexpr pjrt::ElementType kInt64 = 5, kFloat64 = 12;  // PJRT_Buffer_Type's numbers

template <typename Number>
constexpr pjrt::ElementType kElementType = std::is_same_v<Number, int64_t> ? kInt64 : kFloat64;

}  // namespace

Program::Program(std::shared_ptr<pjrt::Executable> executable, std::vector<Parameter> parameters)
    : executable_(std::move(executable)),
      parameters_(std::move(parameters)),
      last_launch_(next_launch()) {}

template <typename Number>
BufferPtr Program::upload(std::span<const Number> numbers, Memo& memo, Ordinal ordinal,
                          bool random) const {
  const auto type = kElementType<Number>;
  if (random) return NumberCache::upload(type, numbers.data(), numbers.size(), ordinal);
  std::lock_guard lock(memo.mutex);
  if (memo.ordinal != ordinal || memo.numbers.size() != numbers.size() ||
      std::memcmp(memo.numbers.data(), numbers.data(), numbers.size_bytes()) != 0) {
    memo.buffer = NumberCache::instance().get(type, numbers.data(), numbers.size(), ordinal);
    memo.ordinal = ordinal;
    memo.numbers.resize(numbers.size());
    std::memcpy(memo.numbers.data(), numbers.data(), numbers.size_bytes());
  }
  return memo.buffer;
}

Outputs Program::launch(std::span<PJRT_Buffer* const> inputs, const Numbers& numbers,
                        Ordinal ordinal, const char* op) const {
  last_launch_.store(next_launch(), std::memory_order_relaxed);
  BufferPtr ints, floats;
  c10::SmallVector<PJRT_Buffer*, 16> arguments;
  for (const Parameter& parameter : parameters_) {
    switch (parameter.source) {
      case Parameter::Source::kInput:
        arguments.push_back(inputs[parameter.input]);
        break;
      case Parameter::Source::kInts:
        ints = upload(numbers.ints, ints_, ordinal, numbers.random);
        arguments.push_back(ints->get());
        break;
      case Parameter::Source::kFloats:
        floats = upload(numbers.floats, floats_, ordinal, numbers.random);
        arguments.push_back(floats->get());
        break;
    }
  }
  Outputs outputs(executable_->num_outputs());
  pjrt::Event done;
  counters().executions.add(1);
  MemoryUse::of(ordinal).runs_with(executable_->run_bytes());
  try {
    executable_->execute({arguments.data(), arguments.size()}, outputs.data(), &done);
  } catch (const pjrt::Error& error) {
    constexpr int kResourceExhausted = 8;
    if (error.code == kResourceExhausted) {
      MemoryUse::of(ordinal).out_of_memory += 1;
      TORCH_CHECK_WITH(OutOfMemoryError, false, "TPU out of memory in ", op, ": ", error.what());
    }
    TORCH_CHECK(false, "TPU error in ", op, ": ", error.what());
  }
  Runtime::get().started(ordinal, std::move(done), op);
  return outputs;
}

ProgramPtr Programs::find(std::span<const uint32_t> donated) const {
  std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    if (std::ranges::equal(entry.donated, donated)) return entry.program->load();
  }
  return nullptr;
}

bool Programs::any() const {
  std::lock_guard lock(mutex_);
  return std::ranges::any_of(entries_,
                             [](const Entry& entry) { return entry.program->load() != nullptr; });
}

void Programs::add(std::span<const uint32_t> donated, ProgramPtr program) {
  ResidentPtr resident = keep_resident(std::move(program));
  std::lock_guard lock(mutex_);
  std::erase_if(entries_,
                [&](const Entry& entry) { return std::ranges::equal(entry.donated, donated); });
  entries_.push_back({{donated.begin(), donated.end()}, std::move(resident)});
}

ResidentPtr keep_resident(ProgramPtr program) {
  return Residents::instance().add(std::move(program));
}

void set_max_programs(size_t count) { Residents::instance().set_max(count); }

}  // namespace torch_tpu
