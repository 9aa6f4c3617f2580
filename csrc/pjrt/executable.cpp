#include "call.h"

namespace torch_tpu::pjrt {

namespace {

void destroy(const PJRT_Api* api, PJRT_LoadedExecutable* executable) noexcept {
  Args<PJRT_LoadedExecutable_Destroy_Args> args;
  args.executable = executable;
  call_quietly(api, &PJRT_Api::PJRT_LoadedExecutable_Destroy, args);
}

}  // namespace

Executable::Executable(std::shared_ptr<Plugin> plugin, PJRT_LoadedExecutable* executable)
    : plugin_(std::move(plugin)), executable_(executable) {
  try {
    const CompiledProgram compiled = program();
    num_outputs_ = compiled.num_outputs();
    run_bytes_ = compiled.run_bytes();
  } catch (...) {
    destroy(plugin_->api(), executable_);  // no destructor runs for a constructor that threw
    throw;
  }
}

Executable::~Executable() { destroy(plugin_->api(), executable_); }

void Executable::execute(std::span<PJRT_Buffer* const> arguments, PJRT_Buffer** outputs,
                         Event* done) const {
  const PJRT_Api* api = plugin_->api();
  Args<PJRT_ExecuteOptions> options;
  Args<PJRT_LoadedExecutable_Execute_Args> args;
  PJRT_Buffer* const* argument_list = arguments.data();
  PJRT_Event* event = nullptr;
  args.executable = executable_;
  args.options = &options;
  args.argument_lists = &argument_list;
  args.num_devices = 1;
  args.num_args = arguments.size();
  args.output_lists = &outputs;
  args.device_complete_events = done != nullptr ? &event : nullptr;
  PJRT_CALL(api, PJRT_LoadedExecutable_Execute, args);
  if (done != nullptr) {
    *done = Event(api, event);
  }
}

// The plugin hands out a new handle for each request.
CompiledProgram Executable::program() const {
  Args<PJRT_LoadedExecutable_GetExecutable_Args> args;
  args.loaded_executable = executable_;
  PJRT_CALL(plugin_->api(), PJRT_LoadedExecutable_GetExecutable, args);
  return {plugin_, args.executable};
}

CompiledProgram::~CompiledProgram() {
  Args<PJRT_Executable_Destroy_Args> args;
  args.executable = program_;
  call_quietly(plugin_->api(), &PJRT_Api::PJRT_Executable_Destroy, args);
}

size_t CompiledProgram::num_outputs() const {
  Args<PJRT_Executable_NumOutputs_Args> args;
  args.executable = program_;
  PJRT_CALL(plugin_->api(), PJRT_Executable_NumOutputs, args);
  return args.num_outputs;
}

int64_t CompiledProgram::run_bytes() const {
  Args<PJRT_Executable_GetCompiledMemoryStats_Args> args;
  args.executable = program_;
  call_quietly(plugin_->api(), &PJRT_Api::PJRT_Executable_GetCompiledMemoryStats, args);
  return args.outputs - args.aliased + args.temporary;
}

std::string CompiledProgram::serialize() const {
  const PJRT_Api* api = plugin_->api();
  Args<PJRT_Executable_Serialize_Args> args;
  args.executable = program_;
  PJRT_CALL(api, PJRT_Executable_Serialize, args);
  const auto free_bytes = args.serialized_executable_deleter;
  const std::unique_ptr<PJRT_SerializedExecutable, decltype(free_bytes)> owner(
      args.serialized_executable, free_bytes);
  return std::string(args.serialized_bytes, args.serialized_bytes_size);
}

std::string CompiledProgram::optimized_program() const {
  const PJRT_Api* api = plugin_->api();
  if (!has(api, &PJRT_Api::PJRT_Executable_OptimizedProgram)) {
    return "";
  }
  try {
    Args<PJRT_Program> code;
    Args<PJRT_Executable_OptimizedProgram_Args> args;
    args.executable = program_;
    args.program = &code;
    PJRT_CALL(api, PJRT_Executable_OptimizedProgram, args);  // says how long it is
    std::string text(code.code_size, '\0');
    code.code = text.data();
    PJRT_CALL(api, PJRT_Executable_OptimizedProgram, args);
    text.resize(code.code_size);
    return text;
  } catch (const Error& error) {
    if (error.code == PJRT_Error_Code_UNIMPLEMENTED) {
      return "";
    }
    throw;
  }
}

}  // namespace torch_tpu::pjrt
