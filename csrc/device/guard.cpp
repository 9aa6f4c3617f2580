// Devices, streams and events, as c10 asks for them.
//
// PJRT runs a device's programs in the order of their data, so streams are labels: work of two
// streams may overlap where nothing connects it. An event holds what was running on the device
// when it was recorded and takes its time when the last of that has finished.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <chrono>
#include <condition_variable>

#include "device/device.h"
#include "device/value.h"

namespace torch_tpu {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kStreamsPerDevice = 32;
thread_local std::array<c10::StreamId, 128> current_streams{};

c10::Device device_of(Ordinal ordinal) { return {c10::DeviceType::PrivateUse1, ordinal}; }

c10::Stream stream_of(c10::Device device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, device_of(Runtime::get().checked(device.index())), id);
}

class RecordedEvent {
 public:
  void record(Ordinal ordinal) {
    auto moment = std::make_shared<Moment>();
    moment_ = moment;
    Runtime::get().when_idle(ordinal, [moment] {
      std::lock_guard lock(moment->mutex);
      moment->time = Clock::now();
      moment->passed = true;
      moment->changed.notify_all();
    });
  }
  bool passed() const {
    std::lock_guard lock(moment_->mutex);
    return moment_->passed;
  }
  void wait() const {
    std::unique_lock lock(moment_->mutex);
    moment_->changed.wait(lock, [this] { return moment_->passed; });
  }
  Clock::time_point time() const { return moment_->time; }

 private:
  struct Moment {
    std::mutex mutex;
    std::condition_variable changed;
    bool passed = false;
    Clock::time_point time;
  };
  std::shared_ptr<Moment> moment_ = std::make_shared<Moment>();
};

const RecordedEvent& event_of(void* event) { return *static_cast<RecordedEvent*>(event); }

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }

  c10::Device exchangeDevice(c10::Device device) const override {
    return device_of(Runtime::get().exchange_device(device.index()));
  }
  c10::Device getDevice() const override { return device_of(Runtime::get().current_device()); }
  void setDevice(c10::Device device) const override {
    Runtime::get().set_current_device(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    try {
      Runtime::get().exchange_device(device.index());
    } catch (const std::exception&) {
      // noexcept: a device that was current before exists
    }
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    try {
      return Runtime::get().device_count();
    } catch (const std::exception&) {
      return 0;
    }
  }
  c10::DeviceCapability getDeviceCapability(c10::Device) const override { return {}; }

  c10::Stream getStream(c10::Device device) const override {
    return stream_of(device, current_streams[Runtime::get().checked(device.index())]);
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return stream_of(device, 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    static std::atomic<c10::StreamId> next{0};
    return stream_of(device, 1 + next++ % kStreamsPerDevice);
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return getStreamFromGlobalPool(device, false);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const Ordinal ordinal = stream.device_index();
    if (current_streams[ordinal] != stream.id()) {
      Runtime::get().flush(ordinal, FlushReason::kStream);
    }
    c10::StreamId previous = std::exchange(current_streams[ordinal], stream.id());
    return stream_of(stream.device(), previous);
  }
  bool queryStream(const c10::Stream& stream) const override {
    return Runtime::get().idle(stream.device_index());
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    Runtime::get().synchronize(stream.device_index());
  }
  void synchronizeDevice(c10::DeviceIndex device) const override {
    Runtime::get().synchronize(device);
  }
  // Values free themselves when the last program that reads them is done.
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex,
              c10::EventFlag) const override {
    if (*event == nullptr) *event = std::make_unique<RecordedEvent>().release();
    static_cast<RecordedEvent*>(*event)->record(stream.device_index());
  }
  // The data itself orders the work of two streams.
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void* event) const override {
    return event == nullptr || event_of(event).passed();
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) event_of(event).wait();
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    std::unique_ptr<RecordedEvent>(static_cast<RecordedEvent*>(event));
  }
  double elapsedTime(void* start, void* end, c10::DeviceIndex) const override {
    TORCH_CHECK(start != nullptr && end != nullptr,
                "Both events must be recorded before calculating elapsed time.");
    TORCH_CHECK(event_of(start).passed() && event_of(end).passed(),
                "Both events must be completed before calculating elapsed time.");
    return std::chrono::duration<double, std::milli>(event_of(end).time() - event_of(start).time())
        .count();
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

}  // namespace

}  // namespace torch_tpu
