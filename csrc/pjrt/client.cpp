#include <malloc.h>

#include <cstring>

#include "call.h"

namespace torch_tpu::pjrt {

namespace {

std::string_view text_of(const auto& args) { return {args.text, args.text_size}; }

PJRT_DeviceDescription* description_of(const PJRT_Api* api, PJRT_Device* device) {
  Args<PJRT_Device_GetDescription_Args> args;
  args.device = device;
  PJRT_CALL(api, PJRT_Device_GetDescription, args);
  return args.device_description;
}

std::string print(const PJRT_NamedValue& value) {
  switch (value.type) {
    case PJRT_NamedValue_kString:
      return std::string(value.string_value, value.value_size);
    case PJRT_NamedValue_kInt64:
      return std::to_string(value.int64_value);
    case PJRT_NamedValue_kInt64List: {
      std::string list;
      for (size_t i = 0; i < value.value_size; ++i) {
        list += (i == 0 ? "" : ",") + std::to_string(value.int64_array_value[i]);
      }
      return list;
    }
    case PJRT_NamedValue_kFloat:
      return std::to_string(value.float_value);
    case PJRT_NamedValue_kBool:
      return value.bool_value ? "true" : "false";
  }
  return "";  // a type that a later plugin added
}

// Protocol buffers' wire format, as far as CompileOptionsProto needs it.
std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) {
    bytes += static_cast<char>(value | 0x80);
  }
  return bytes += static_cast<char>(value);
}

std::string field(int number, uint64_t value) {
  return varint(static_cast<uint64_t>(number) << 3) + varint(value);
}

std::string field(int number, const std::string& message) {
  return varint(static_cast<uint64_t>(number) << 3 | 2) + varint(message.size()) + message;
}

std::string double_field(int number, double value) {
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  return varint(static_cast<uint64_t>(number) << 3 | 1) + bytes;
}

// OptionOverrideProto: one field for each type.
std::string flag_value(const decltype(Flag::second)& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return field(2, uint64_t{*flag});
  if (const auto* number = std::get_if<int64_t>(&value)) {
    return field(3, static_cast<uint64_t>(*number));
  }
  if (const auto* number = std::get_if<double>(&value)) return double_field(4, *number);
  return field(1, std::get<std::string>(value));
}

}  // namespace

std::string compile_options(int device_id, std::span<const Flag> flags) {
  const auto id = static_cast<uint64_t>(device_id);
  // DeviceAssignmentProto: one replica of one computation, on the device with this id.
  const std::string assignment =
      field(1, 1) + field(2, 1) + field(3, field(1, varint(id)));  // device ids are packed
  // ExecutableBuildOptionsProto: device_ordinal, num_replicas, num_partitions, device_assignment.
  const std::string build = field(1, id) + field(4, 1) + field(5, 1) + field(9, assignment);
  std::string options = field(3, build);     // CompileOptionsProto.executable_build_options
  for (const auto& [name, value] : flags) {  // and its env_option_overrides, a map
    options += field(7, field(1, name) + field(2, flag_value(value)));
  }
  return options;
}

void keep_freed_memory() {
  // The CPU plugin takes every buffer from malloc and gives it back. By default glibc maps large
  // ones anew, and the system zeroes them page by page each time: that cost 2 to 4 times the run
  // of a 512x512 or 1024x1024 add.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

std::shared_ptr<Client> Client::create(std::shared_ptr<Plugin> plugin,
                                       const std::vector<Option>& options) {
  const PJRT_Api* api = plugin->api();
  struct Access : Client {};  // make_shared can't reach the private constructor
  auto client = std::make_shared<Access>();
  client->plugin_ = std::move(plugin);

  // No Args<> here: the plugin walks this array with its own idea of an element's size.
  std::vector<PJRT_NamedValue> values(options.size());
  for (size_t i = 0; i < options.size(); ++i) {
    values[i].struct_size = sizeof(PJRT_NamedValue);
    values[i].name = options[i].first.data();
    values[i].name_size = options[i].first.size();
    values[i].value_size = 1;
    if (const auto* number = std::get_if<int64_t>(&options[i].second)) {
      values[i].type = PJRT_NamedValue_kInt64;
      values[i].int64_value = *number;
    } else if (const auto* flag = std::get_if<bool>(&options[i].second)) {
      values[i].type = PJRT_NamedValue_kBool;
      values[i].bool_value = *flag;
    } else {
      const auto& text = std::get<std::string>(options[i].second);
      values[i].type = PJRT_NamedValue_kString;
      values[i].string_value = text.data();
      values[i].value_size = text.size();
    }
  }
  Args<PJRT_Client_Create_Args> create;
  create.create_options = values.data();
  create.num_options = values.size();
  PJRT_CALL(api, PJRT_Client_Create, create);
  client->client_ = create.client;
  if (client->platform_name() == "cpu") {
    keep_freed_memory();
  }

  Args<PJRT_Client_AddressableDevices_Args> devices;
  devices.client = client->client_;
  PJRT_CALL(api, PJRT_Client_AddressableDevices, devices);
  client->devices_.assign(devices.addressable_devices,
                          devices.addressable_devices + devices.num_addressable_devices);
  return client;
}

Client::~Client() {
  if (client_ != nullptr) {
    Args<PJRT_Client_Destroy_Args> args;
    args.client = client_;
    call_quietly(plugin_->api(), &PJRT_Api::PJRT_Client_Destroy, args);
  }
}

PJRT_Device* Client::device(int ordinal) const {
  if (ordinal < 0 || static_cast<size_t>(ordinal) >= devices_.size()) {
    throw Error(PJRT_Error_Code_INVALID_ARGUMENT, "there is no device " + std::to_string(ordinal) +
                                                      ": the client has " +
                                                      std::to_string(devices_.size()));
  }
  return devices_[static_cast<size_t>(ordinal)];
}

std::string Client::platform_name() const {
  Args<PJRT_Client_String_Args> args;
  args.client = client_;
  PJRT_CALL(plugin_->api(), PJRT_Client_PlatformName, args);
  return std::string(text_of(args));
}

std::string Client::platform_version() const {
  Args<PJRT_Client_String_Args> args;
  args.client = client_;
  PJRT_CALL(plugin_->api(), PJRT_Client_PlatformVersion, args);
  return std::string(text_of(args));
}

int Client::device_id(int ordinal) const {
  Args<PJRT_DeviceDescription_Id_Args> args;
  args.device_description = description_of(plugin_->api(), device(ordinal));
  PJRT_CALL(plugin_->api(), PJRT_DeviceDescription_Id, args);
  return args.id;
}

std::string Client::device_kind(int ordinal) const {
  Args<PJRT_DeviceDescription_String_Args> args;
  args.device_description = description_of(plugin_->api(), device(ordinal));
  PJRT_CALL(plugin_->api(), PJRT_DeviceDescription_Kind, args);
  return std::string(text_of(args));
}

std::string Client::device_description(int ordinal) const {
  Args<PJRT_DeviceDescription_String_Args> args;
  args.device_description = description_of(plugin_->api(), device(ordinal));
  PJRT_CALL(plugin_->api(), PJRT_DeviceDescription_ToString, args);
  return std::string(text_of(args));
}

std::vector<std::pair<std::string, std::string>> Client::device_attributes(int ordinal) const {
  Args<PJRT_DeviceDescription_Attributes_Args> args;
  args.device_description = description_of(plugin_->api(), device(ordinal));
  PJRT_CALL(plugin_->api(), PJRT_DeviceDescription_Attributes, args);
  std::vector<std::pair<std::string, std::string>> attributes;
  for (size_t i = 0; i < args.num_attributes; ++i) {
    const PJRT_NamedValue& value = args.attributes[i];
    attributes.emplace_back(std::string(value.name, value.name_size), print(value));
  }
  return attributes;
}

bool Client::memory_stats(int ordinal, MemoryStats* stats) const {
  const PJRT_Api* api = plugin_->api();
  Args<PJRT_Device_MemoryStats_Args> args;
  args.device = device(ordinal);
  if (!has(api, &PJRT_Api::PJRT_Device_MemoryStats)) {
    return false;
  }
  if (PJRT_Error* error = api->PJRT_Device_MemoryStats(&args)) {
    auto [code, message] = take_error(api, error);
    if (code == PJRT_Error_Code_UNIMPLEMENTED) {
      return false;
    }
    throw Error(code, message);
  }
  const auto known = [](const PJRT_OptionalInt64& figure) {
    return figure.is_set ? figure.value : int64_t{-1};
  };
  stats->bytes_in_use = args.bytes_in_use;
  stats->peak_bytes = known(args.peak_bytes_in_use);
  stats->bytes_limit = known(args.bytes_limit);
  return true;
}

Buffer Client::from_host(const void* data, ElementType type, std::span<const int64_t> dims,
                         int ordinal) const {
  const PJRT_Api* api = plugin_->api();
  static constexpr char kNothing = 0;
  Args<PJRT_Client_BufferFromHostBuffer_Args> args;
  args.client = client_;
  args.data = data != nullptr ? data : &kNothing;  // an array of no elements may come from null
  args.type = static_cast<PJRT_Buffer_Type>(type);
  args.dims = dims.data();
  args.num_dims = dims.size();
  args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  args.device = device(ordinal);
  PJRT_CALL(api, PJRT_Client_BufferFromHostBuffer, args);
  Buffer buffer(api, args.buffer);
  // Already done by the semantics asked for; waiting holds a plugin that is late to its word.
  Event(api, args.done_with_host_buffer).wait();
  return buffer;
}

std::shared_ptr<Executable> Client::compile(std::string_view mlir, std::string_view options) const {
  const std::string own = options.empty() ? compile_options(device_id(0)) : "";
  const Args<PJRT_Program> program = mlir_program(mlir);
  Args<PJRT_Client_Compile_Args> args;
  args.client = client_;
  args.program = &program;
  args.compile_options = options.empty() ? own.data() : options.data();
  args.compile_options_size = options.empty() ? own.size() : options.size();
  PJRT_CALL(plugin_->api(), PJRT_Client_Compile, args);
  return std::make_shared<Executable>(plugin_, args.executable);
}

std::shared_ptr<Executable> Client::deserialize(std::string_view serialized) const {
  Args<PJRT_Executable_DeserializeAndLoad_Args> args;
  args.client = client_;
  args.serialized_executable = serialized.data();
  args.serialized_executable_size = serialized.size();
  PJRT_CALL(plugin_->api(), PJRT_Executable_DeserializeAndLoad, args);
  return std::make_shared<Executable>(plugin_, args.loaded_executable);
}

}  // namespace torch_tpu::pjrt
