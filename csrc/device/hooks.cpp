// What ATen asks about the device as a whole.
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "device/device.h"
#include "device/storage.h"

namespace torch_tpu {

namespace {

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override {
    try {
      return Runtime::get().device_count() > 0;
    } catch (const std::exception&) {
      return false;  // the interface forbids throwing; using the device says why
    }
  }
  void init() const override { Runtime::get().client(); }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return Runtime::get().initialized(); }
  c10::DeviceIndex deviceCount() const override { return Runtime::get().device_count(); }
  c10::DeviceIndex getCurrentDevice() const override { return Runtime::get().current_device(); }
  void setCurrentDevice(c10::DeviceIndex device) const override {
    Runtime::get().set_current_device(device);
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    return Runtime::get().exchange_device(device);
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return Runtime::get().exchange_device(device);
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return default_generator(Runtime::get().checked(device));
  }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override;

  at::Device getDeviceFromPtr(void* data) const override {
    return {c10::DeviceType::PrivateUse1, static_cast<Cell*>(data)->ordinal};
  }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  at::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }

  // A storage keeps its address; growing or shrinking it moves what it holds.
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(*storage.unsafeGetStorageImpl(), bytes);
  }
};

}  // namespace

at::Generator Hooks::getNewGenerator(c10::DeviceIndex device) const {
  return new_generator(Runtime::get().checked(device));
}

void register_hooks() {
  static Hooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
}

}  // namespace torch_tpu
