// Random state as (seed, offset) on the host, as CUDA keeps it.
#include <ATen/Functions.h>
#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include <cstring>
#include <limits>

#include "device/device.h"

namespace torch_tpu {

namespace {

class TpuGenerator final : public c10::GeneratorImpl {
 public:
  explicit TpuGenerator(Ordinal ordinal)
      : GeneratorImpl(c10::Device(c10::DeviceType::PrivateUse1, ordinal),
                      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

  void set_current_seed(uint64_t seed) override {
    seed_ = seed;
    offset_ = 0;
  }
  void set_offset(uint64_t offset) override { offset_ = offset; }
  uint64_t get_offset() const override { return offset_; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return seed_;
  }

  // 16 bytes: seed, offset; CUDA's layout.
  void set_state(const c10::TensorImpl& state) override {
    at::detail::check_rng_state(state);
    TORCH_CHECK(state.numel() == kStateBytes || state.numel() == kSeedBytes,
                "RNG state is wrong size: a tpu generator's state has ", kStateBytes,
                " bytes, got ", state.numel());
    const auto* bytes = static_cast<const uint8_t*>(state.data());
    std::memcpy(&seed_, bytes, kSeedBytes);
    offset_ = 0;
    if (state.numel() == kStateBytes) std::memcpy(&offset_, bytes + kSeedBytes, kSeedBytes);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    at::Tensor state =
        at::empty({kStateBytes}, at::TensorOptions().dtype(at::kByte).device(at::kCPU));
    auto* bytes = static_cast<uint8_t*>(state.mutable_data_ptr());
    std::memcpy(bytes, &seed_, kSeedBytes);
    std::memcpy(bytes + kSeedBytes, &offset_, kSeedBytes);
    return state.getIntrusivePtr();
  }

  std::pair<uint64_t, uint64_t> next(uint64_t draws) {
    return {seed_, std::exchange(offset_, offset_ + draws)};
  }

 private:
  static constexpr int64_t kSeedBytes = sizeof(uint64_t), kStateBytes = 2 * kSeedBytes;

  TpuGenerator* clone_impl() const override {
    auto copy = c10::make_intrusive<TpuGenerator>(device_.index());
    copy->seed_ = seed_;
    copy->offset_ = offset_;
    return copy.release();
  }

  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

}  // namespace

at::Generator new_generator(Ordinal ordinal) { return at::make_generator<TpuGenerator>(ordinal); }

const at::Generator& default_generator(Ordinal ordinal) {
  // Host state only: seeding must not load the plugin, so there is one for every possible device.
  static const std::vector<at::Generator> generators = [] {
    std::vector<at::Generator> all;
    for (int i = 0; i <= std::numeric_limits<Ordinal>::max(); ++i) {
      all.push_back(new_generator(static_cast<Ordinal>(i)));
    }
    return all;
  }();
  return generators[ordinal];
}

std::pair<uint64_t, uint64_t> next_random(const std::optional<at::Generator>& generator,
                                          Ordinal ordinal, uint64_t draws) {
  auto* state = at::get_generator_or_default<TpuGenerator>(generator, default_generator(ordinal));
  std::lock_guard lock(state->mutex_);
  return state->next(draws);
}

}  // namespace torch_tpu
