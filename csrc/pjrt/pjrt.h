// RAII over the PJRT C API. Knows nothing of torch; errors are pjrt::Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "abi.h"

namespace torch_tpu::pjrt {

// What a plugin answered instead of a result. `code` is PJRT_Error_Code (absl's status codes).
class Error : public std::runtime_error {
 public:
  Error(int code, const std::string& message) : std::runtime_error(message), code(code) {}
  const int code;
};

// XLA's element types, by the numbers of PJRT_Buffer_Type.
using ElementType = int32_t;

// A loaded plugin. One per process and path; never unloaded.
class Plugin {
 public:
  // Loads `path`, checks the C API's version, initialises the plugin. Error names both versions
  // when they don't fit, and the path when it can't be loaded or lacks GetPjrtApi.
  static std::shared_ptr<Plugin> load(const std::string& path);
  const PJRT_Api* api() const { return api_; }
  std::pair<int, int> api_version() const;
  const std::string& path() const { return path_; }
  // The first extension of a type in the plugin's chain, or null.
  const void* extension(int type) const;
  // Registers one XLA FFI handler (an XLA_FFI_Handler*). False where the plugin has no FFI
  // extension.
  bool register_ffi_handler(std::string_view target, void* handler,
                            std::string_view platform) const;
  // Throws Error (and frees the PJRT_Error) unless `error` is null.
  void check(PJRT_Error* error) const;

 private:
  Plugin() = default;
  std::string path_;
  const PJRT_Api* api_ = nullptr;
};

// A create option of a client; its type must be the one that the plugin expects.
using Option = std::pair<std::string, std::variant<int64_t, bool, std::string>>;

// Completion of an asynchronous operation.
class Event {
 public:
  Event() = default;
  Event(const PJRT_Api* api, PJRT_Event* event) : api_(api), event_(event) {}
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();
  explicit operator bool() const { return event_ != nullptr; }
  bool ready() const;
  void wait() const;  // throws Error if the operation failed
  // Calls `done` once (at once if ready), maybe on another thread, with an error message or "".
  void on_ready(std::function<void(std::string)> done) const;

 private:
  const PJRT_Api* api_ = nullptr;
  PJRT_Event* event_ = nullptr;
};

// A device buffer. It must go before its client does, and so must events and executables.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const PJRT_Api* api, PJRT_Buffer* buffer) : api_(api), buffer_(buffer) {}
  Buffer(Buffer&& other) noexcept
      : api_(other.api_), buffer_(std::exchange(other.buffer_, nullptr)) {}
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  ~Buffer() { reset(); }
  void reset();  // frees the buffer now
  explicit operator bool() const { return buffer_ != nullptr; }
  PJRT_Buffer* get() const { return buffer_; }
  Event ready() const;
  // Copies the whole buffer, row-major, to `host` (`size` bytes at least the buffer's), which must
  // live until the event is ready. On a plugin whose device memory is the host's, a buffer that is
  // ready is copied at once, hundreds of times faster than the plugin does it: whoever waits
  // anyway should wait for ready() first. Nobody may donate the buffer meanwhile.
  Event to_host(void* host, size_t size) const;
  Buffer to_device(PJRT_Device* device) const;
  PJRT_Device* device() const;
  bool deleted() const;  // a program took it
  ElementType element_type() const;
  std::vector<int64_t> dims() const;
  size_t on_device_bytes() const;

 private:
  const PJRT_Api* api_ = nullptr;
  PJRT_Buffer* buffer_ = nullptr;
};

// A compiled program that no device has loaded.
class CompiledProgram {
 public:
  CompiledProgram(std::shared_ptr<Plugin> plugin, PJRT_Executable* program)
      : plugin_(std::move(plugin)), program_(program) {}
  CompiledProgram(const CompiledProgram&) = delete;
  ~CompiledProgram();
  size_t num_outputs() const;
  // Bytes that a run needs besides its arguments: outputs that reuse none of them, and temporary
  // memory. 0 where the plugin doesn't say.
  int64_t run_bytes() const;
  std::string serialize() const;
  // HLO text or proto as the plugin gives it; "" if it can't.
  std::string optimized_program() const;

 private:
  std::shared_ptr<Plugin> plugin_;
  PJRT_Executable* program_;
};

// A program loaded on one device.
class Executable {
 public:
  Executable(std::shared_ptr<Plugin> plugin, PJRT_LoadedExecutable* executable);
  Executable(const Executable&) = delete;
  ~Executable();
  size_t num_outputs() const { return num_outputs_; }
  int64_t run_bytes() const { return run_bytes_; }  // CompiledProgram's
  // Runs it, asynchronously. `outputs` has room for num_outputs() owning pointers. The contents of
  // donated arguments are taken by the program; freeing every argument stays the caller's duty.
  // With `done`, it receives an event for the whole execution. This is the hot path: no allocation
  // of its own.
  void execute(std::span<PJRT_Buffer* const> arguments, PJRT_Buffer** outputs,
               Event* done = nullptr) const;
  CompiledProgram program() const;

 private:
  std::shared_ptr<Plugin> plugin_;
  PJRT_LoadedExecutable* executable_;
  size_t num_outputs_ = 0;
  int64_t run_bytes_ = 0;
};

struct MemoryStats {
  int64_t bytes_in_use = 0, peak_bytes = -1, bytes_limit = -1;  // -1: not known
};

class Client {
 public:
  static std::shared_ptr<Client> create(std::shared_ptr<Plugin> plugin,
                                        const std::vector<Option>& options = {});
  ~Client();
  const std::shared_ptr<Plugin>& plugin() const { return plugin_; }
  std::string platform_name() const;
  std::string platform_version() const;
  const std::vector<PJRT_Device*>& devices() const { return devices_; }  // addressable ones
  PJRT_Device* device(int ordinal) const;  // Error where there is none
  int device_id(int ordinal) const;        // among the devices of all processes
  std::string device_kind(int ordinal) const;
  std::string device_description(int ordinal) const;
  // Integer, string and float attributes of a device, printed.
  std::vector<std::pair<std::string, std::string>> device_attributes(int ordinal) const;
  bool memory_stats(int ordinal, MemoryStats* stats) const;  // false where not implemented
  // Copies dense row-major host data to a device. The data may be reused when this returns.
  Buffer from_host(const void* data, ElementType type, std::span<const int64_t> dims,
                   int ordinal) const;
  // Compiles StableHLO (text or bytecode) with a serialised CompileOptionsProto, "" for one device.
  std::shared_ptr<Executable> compile(std::string_view mlir, std::string_view options = {}) const;
  std::shared_ptr<Executable> deserialize(std::string_view serialized) const;

 private:
  Client() = default;
  std::shared_ptr<Plugin> plugin_;
  PJRT_Client* client_ = nullptr;
  std::vector<PJRT_Device*> devices_;
};

// Devices that need not be there: what a plugin compiles for without a client.
class Topology {
 public:
  // `name` is in the plugin's own words, "v5e:2x2" for libtpu. Error where it knows none such.
  static std::shared_ptr<Topology> create(std::shared_ptr<Plugin> plugin, const std::string& name);
  ~Topology();
  Topology(const Topology&) = delete;
  size_t device_count() const;
  std::string device_kind() const;  // of the first one; a topology's devices are alike
  // Compiles as Client::compile does; "" for one device.
  std::shared_ptr<CompiledProgram> compile(std::string_view mlir,
                                           std::string_view options = {}) const;

 private:
  Topology(std::shared_ptr<Plugin> plugin, PJRT_TopologyDescription* topology)
      : plugin_(std::move(plugin)), topology_(topology) {}
  std::span<PJRT_DeviceDescription* const> devices() const;
  std::shared_ptr<Plugin> plugin_;
  PJRT_TopologyDescription* topology_;
};

// A flag of XLA's for one program, by its name without dashes.
using Flag = std::pair<std::string, std::variant<bool, int64_t, double, std::string>>;

// CompileOptionsProto for a one-device program placed on a device, so that every ordinal of a
// client can be compiled for. The number is Client::device_id(ordinal), which is the ordinal itself
// unless several processes share the devices.
std::string compile_options(int device_id, std::span<const Flag> flags = {});

// Makes the C library keep freed memory instead of returning it to the system.
void keep_freed_memory();

}  // namespace torch_tpu::pjrt
