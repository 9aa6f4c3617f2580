// The argument structs of the PJRT C ABI that torch_tpu fills, through pjrt::Args (call.h), which
// zeroes them and sets struct_size.
#pragma once

#include "abi_types.h"

// Every argument struct starts with these two words.
#define PJRT_HEADER   \
  size_t struct_size; \
  PJRT_Extension_Base* extension_start

struct PJRT_Api_Version {
  PJRT_HEADER;
  int major_version;
  int minor_version;
};

struct PJRT_NamedValue {
  PJRT_HEADER;
  const char* name;
  size_t name_size;
  PJRT_NamedValue_Type type;
  union {
    const char* string_value;
    int64_t int64_value;
    const int64_t* int64_array_value;
    float float_value;
    bool bool_value;
  };
  size_t value_size;  // elements of a string or list, 1 otherwise
};

// In the structs below "->" marks what the plugin fills in.

struct PJRT_Error_Destroy_Args {
  PJRT_HEADER;
  PJRT_Error* error;
};

struct PJRT_Error_Message_Args {
  PJRT_HEADER;
  const PJRT_Error* error;
  const char* message;  // -> lives as long as the error
  size_t message_size;  // ->
};

struct PJRT_Error_GetCode_Args {
  PJRT_HEADER;
  const PJRT_Error* error;
  int code;  // ->
};

struct PJRT_Plugin_Initialize_Args {
  PJRT_HEADER;
};

struct PJRT_Event_Destroy_Args {
  PJRT_HEADER;
  PJRT_Event* event;
};

struct PJRT_Event_IsReady_Args {
  PJRT_HEADER;
  PJRT_Event* event;
  bool is_ready;  // ->
};

struct PJRT_Event_Await_Args {
  PJRT_HEADER;
  PJRT_Event* event;
};

struct PJRT_Event_OnReady_Args {
  PJRT_HEADER;
  PJRT_Event* event;
  void (*callback)(PJRT_Error* error, void* user_arg);  // the callback owns the error
  void* user_arg;
};

struct PJRT_Client_Create_Args {
  PJRT_HEADER;
  const PJRT_NamedValue* create_options;
  size_t num_options;
  void* kv_get_callback;  // the key-value store is for multi-host clients; not used here
  void* kv_get_user_arg;
  void* kv_put_callback;
  void* kv_put_user_arg;
  PJRT_Client* client;  // ->
  void* kv_try_get_callback;
  void* kv_try_get_user_arg;
};
static_assert(sizeof(PJRT_Client_Create_Args) == 88);

struct PJRT_Client_Destroy_Args {
  PJRT_HEADER;
  PJRT_Client* client;
};

// PJRT_Client_PlatformName and PJRT_Client_PlatformVersion.
struct PJRT_Client_String_Args {
  PJRT_HEADER;
  PJRT_Client* client;
  const char* text;  // -> lives as long as the client
  size_t text_size;  // ->
};

struct PJRT_Client_AddressableDevices_Args {
  PJRT_HEADER;
  PJRT_Client* client;
  PJRT_Device* const* addressable_devices;  // ->
  size_t num_addressable_devices;           // ->
};

struct PJRT_Program {
  PJRT_HEADER;
  char* code;
  size_t code_size;
  const char* format;  // "mlir" or "hlo"
  size_t format_size;
};

struct PJRT_Client_Compile_Args {
  PJRT_HEADER;
  PJRT_Client* client;
  const PJRT_Program* program;
  const char* compile_options;
  size_t compile_options_size;
  PJRT_LoadedExecutable* executable;  // ->
};

struct PJRT_Buffer_MemoryLayout_Tiled {
  PJRT_HEADER;
  const int64_t* minor_to_major;
  size_t minor_to_major_size;
  const int64_t* tile_dims;
  const size_t* tile_dim_sizes;
  size_t num_tiles;
};

struct PJRT_Buffer_MemoryLayout_Strides {
  PJRT_HEADER;
  const int64_t* byte_strides;
  size_t num_byte_strides;
};

struct PJRT_Buffer_MemoryLayout {
  PJRT_HEADER;
  union {
    PJRT_Buffer_MemoryLayout_Tiled tiled;
    PJRT_Buffer_MemoryLayout_Strides strides;
  };
  PJRT_Buffer_MemoryLayout_Type type;
};

struct PJRT_Client_BufferFromHostBuffer_Args {
  PJRT_HEADER;
  PJRT_Client* client;
  const void* data;
  PJRT_Buffer_Type type;
  const int64_t* dims;
  size_t num_dims;
  const int64_t* byte_strides;  // none: dense, row-major
  size_t num_byte_strides;
  PJRT_HostBufferSemantics host_buffer_semantics;
  PJRT_Device* device;
  PJRT_Memory* memory;                      // none: the device's default
  PJRT_Buffer_MemoryLayout* device_layout;  // none: the device's default
  PJRT_Event* done_with_host_buffer;        // ->
  PJRT_Buffer* buffer;                      // ->
};

struct PJRT_Device_GetDescription_Args {
  PJRT_HEADER;
  PJRT_Device* device;
  PJRT_DeviceDescription* device_description;  // -> lives as long as the device
};

struct PJRT_DeviceDescription_Id_Args {
  PJRT_HEADER;
  PJRT_DeviceDescription* device_description;
  int id;  // ->
};

struct PJRT_DeviceDescription_Attributes_Args {
  PJRT_HEADER;
  PJRT_DeviceDescription* device_description;
  size_t num_attributes;              // ->
  const PJRT_NamedValue* attributes;  // ->
};

// PJRT_DeviceDescription_Kind and PJRT_DeviceDescription_ToString.
struct PJRT_DeviceDescription_String_Args {
  PJRT_HEADER;
  PJRT_DeviceDescription* device_description;
  const char* text;  // ->
  size_t text_size;  // ->
};

// Every figure but the first comes with a flag that says whether the plugin knows it.
struct PJRT_OptionalInt64 {
  int64_t value;
  bool is_set;
};

// All sizes in bytes; the host_ ones are of memory on the host.
struct PJRT_Executable_GetCompiledMemoryStats_Args {
  PJRT_HEADER;
  PJRT_Executable* executable;
  int64_t generated_code;  // -> and so are all that follow
  int64_t arguments;
  int64_t outputs;
  int64_t aliased;  // arguments reused for outputs
  int64_t temporary;
  int64_t host_generated_code;
  int64_t host_arguments;
  int64_t host_outputs;
  int64_t host_aliased;
  int64_t host_temporary;
  int64_t peak;
  int64_t total;
};

struct PJRT_Device_MemoryStats_Args {
  PJRT_HEADER;
  PJRT_Device* device;
  int64_t bytes_in_use;  // -> and so are all that follow
  PJRT_OptionalInt64 peak_bytes_in_use;
  PJRT_OptionalInt64 num_allocs;
  PJRT_OptionalInt64 largest_alloc_size;
  PJRT_OptionalInt64 bytes_limit;
  PJRT_OptionalInt64 bytes_reserved;
  PJRT_OptionalInt64 peak_bytes_reserved;
  PJRT_OptionalInt64 bytes_reservable_limit;
  PJRT_OptionalInt64 largest_free_block_bytes;
  PJRT_OptionalInt64 pool_bytes;
  PJRT_OptionalInt64 peak_pool_bytes;
};

struct PJRT_Executable_Destroy_Args {
  PJRT_HEADER;
  PJRT_Executable* executable;
};

struct PJRT_Executable_NumOutputs_Args {
  PJRT_HEADER;
  PJRT_Executable* executable;
  size_t num_outputs;  // ->
};

struct PJRT_Executable_OptimizedProgram_Args {
  PJRT_HEADER;
  PJRT_Executable* executable;
  PJRT_Program* program;  // -> the size when its code is null, else the code and its format
};

struct PJRT_Executable_Serialize_Args {
  PJRT_HEADER;
  const PJRT_Executable* executable;
  const char* serialized_bytes;                                       // -> owned by the next
  size_t serialized_bytes_size;                                       // ->
  PJRT_SerializedExecutable* serialized_executable;                   // -> freed by the next
  void (*serialized_executable_deleter)(PJRT_SerializedExecutable*);  // ->
};

struct PJRT_Executable_DeserializeAndLoad_Args {
  PJRT_HEADER;
  PJRT_Client* client;
  const char* serialized_executable;
  size_t serialized_executable_size;
  PJRT_LoadedExecutable* loaded_executable;  // ->
  const char* overridden_serialized_compile_options;
  size_t overridden_serialized_compile_options_size;
};

struct PJRT_LoadedExecutable_Destroy_Args {
  PJRT_HEADER;
  PJRT_LoadedExecutable* executable;
};

struct PJRT_LoadedExecutable_GetExecutable_Args {
  PJRT_HEADER;
  PJRT_LoadedExecutable* loaded_executable;
  PJRT_Executable* executable;  // -> the caller destroys it
};

struct PJRT_ExecuteOptions {
  PJRT_HEADER;
  void** send_callbacks;
  void** recv_callbacks;
  size_t num_send_ops;
  size_t num_recv_ops;
  int launch_id;
  const int64_t* non_donatable_input_indices;
  size_t num_non_donatable_input_indices;
  void* context;
  const char* call_location;
  size_t num_tasks;
  int* task_ids;
  int64_t* incarnation_ids;
};
static_assert(sizeof(PJRT_ExecuteOptions) == 112);

struct PJRT_LoadedExecutable_Execute_Args {
  PJRT_HEADER;
  PJRT_LoadedExecutable* executable;
  PJRT_ExecuteOptions* options;
  PJRT_Buffer* const* const* argument_lists;  // one list per device
  size_t num_devices;
  size_t num_args;
  PJRT_Buffer** const* output_lists;    // -> into the caller's room
  PJRT_Event** device_complete_events;  // -> likewise; null where nobody asks
  PJRT_Device* execute_device;          // only for programs compiled for no device in particular
};

struct PJRT_Buffer_Destroy_Args {
  PJRT_HEADER;
  PJRT_Buffer* buffer;
};

struct PJRT_Buffer_ElementType_Args {
  PJRT_HEADER;
  PJRT_Buffer* buffer;
  PJRT_Buffer_Type type;  // ->
};

struct PJRT_Buffer_Dimensions_Args {
  PJRT_HEADER;
  PJRT_Buffer* buffer;
  const int64_t* dims;  // -> lives as long as the buffer
  size_t num_dims;      // ->
};

struct PJRT_Buffer_OnDeviceSizeInBytes_Args {
  PJRT_HEADER;
  PJRT_Buffer* buffer;
  size_t on_device_size_in_bytes;  // ->
};

struct PJRT_Buffer_Device_Args {
  PJRT_HEADER;
  PJRT_Buffer* buffer;
  PJRT_Device* device;  // ->
};

struct PJRT_Buffer_IsDeleted_Args {
  PJRT_HEADER;
  PJRT_Buffer* buffer;
  bool is_deleted;  // ->
};

struct PJRT_Buffer_CopyToDevice_Args {
  PJRT_HEADER;
  PJRT_Buffer* buffer;
  PJRT_Device* dst_device;
  PJRT_Buffer* dst_buffer;  // ->
};

struct PJRT_Buffer_ToHostBuffer_Args {
  PJRT_HEADER;
  PJRT_Buffer* src;
  PJRT_Buffer_MemoryLayout* host_layout;  // none: the buffer's own
  void* dst;                              // null asks for the size only
  size_t dst_size;                        // -> when dst is null
  PJRT_Event* event;                      // ->
};

struct PJRT_Buffer_GetMemoryLayout_Args {
  PJRT_HEADER;
  PJRT_Buffer* buffer;
  PJRT_Buffer_MemoryLayout layout;  // -> its lists live as long as the buffer
};

struct PJRT_Buffer_IsOnCpu_Args {
  PJRT_HEADER;
  PJRT_Buffer* buffer;
  bool is_on_cpu;  // ->
};

struct PJRT_Buffer_UnsafePointer_Args {
  PJRT_HEADER;
  PJRT_Buffer* buffer;
  uintptr_t buffer_pointer;  // ->
};

struct PJRT_Buffer_ReadyEvent_Args {
  PJRT_HEADER;
  PJRT_Buffer* buffer;
  PJRT_Event* event;  // ->
};

struct PJRT_TopologyDescription_Create_Args {
  PJRT_HEADER;
  const char* topology_name;
  size_t topology_name_size;
  const PJRT_NamedValue* create_options;
  size_t num_options;
  PJRT_TopologyDescription* topology;  // -> the caller destroys it
};

struct PJRT_TopologyDescription_Destroy_Args {
  PJRT_HEADER;
  PJRT_TopologyDescription* topology;
};

struct PJRT_TopologyDescription_GetDeviceDescriptions_Args {
  PJRT_HEADER;
  PJRT_TopologyDescription* topology;
  PJRT_DeviceDescription* const* descriptions;  // -> live as long as the topology
  size_t num_descriptions;                      // ->
};

struct PJRT_Compile_Args {
  PJRT_HEADER;
  const PJRT_TopologyDescription* topology;
  const PJRT_Program* program;
  const char* compile_options;
  size_t compile_options_size;
  PJRT_Client* client;          // may be null
  PJRT_Executable* executable;  // -> the caller destroys it
};

// The FFI extension; the argument struct of its registration has no extension word.
struct PJRT_FFI_Register_Handler_Args {
  size_t struct_size;
  const char* target_name;
  size_t target_name_size;
  void* handler;  // XLA_FFI_Handler*
  const char* platform_name;
  size_t platform_name_size;
  int traits;
};

struct PJRT_FFI_Extension {
  PJRT_Extension_Base base;
  void* type_register;
  void* user_data_add;
  PJRT_Error* (*register_handler)(PJRT_FFI_Register_Handler_Args*);
};

#undef PJRT_HEADER
