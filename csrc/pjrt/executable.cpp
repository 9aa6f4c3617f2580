#include "call.h"

namespace torch_tpu::pjrt {

namespace {

// The program behind a loaded executable; the plugin hands out a new handle for each request.
class Program {
 public:
  Program(const PJRT_Api* api, PJRT_LoadedExecutable* loaded) : api_(api) {
    Args<PJRT_LoadedExecutable_GetExecutable_Args> args;
    args.loaded_executable = loaded;
    PJRT_CALL(api_, PJRT_LoadedExecutable_GetExecutable, args);
    program_ = args.executable;
  }
  Program(const Program&) = delete;
  ~Program() {
    Args<PJRT_Executable_Destroy_Args> args;
    args.executable = program_;
    call_quietly(api_, &PJRT_Api::PJRT_Executable_Destroy, args);
  }
  PJRT_Executable* get() const { return program_; }

 private:
  const PJRT_Api* api_;
  PJRT_Executable* program_ = nullptr;
};

int64_t bytes_of_run(const PJRT_Api* api, PJRT_Executable* program) {
  Args<PJRT_Executable_GetCompiledMemoryStats_Args> args;
  args.executable = program;
  call_quietly(api, &PJRT_Api::PJRT_Executable_GetCompiledMemoryStats, args);
  return args.outputs - args.aliased + args.temporary;
}

void destroy(const PJRT_Api* api, PJRT_LoadedExecutable* executable) noexcept {
  Args<PJRT_LoadedExecutable_Destroy_Args> args;
  args.executable = executable;
  call_quietly(api, &PJRT_Api::PJRT_LoadedExecutable_Destroy, args);
}

}  // namespace

Executable::Executable(std::shared_ptr<Plugin> plugin, PJRT_LoadedExecutable* executable)
    : plugin_(std::move(plugin)), executable_(executable) {
  try {
    const Program program(plugin_->api(), executable_);
    Args<PJRT_Executable_NumOutputs_Args> args;
    args.executable = program.get();
    PJRT_CALL(plugin_->api(), PJRT_Executable_NumOutputs, args);
    num_outputs_ = args.num_outputs;
    run_bytes_ = bytes_of_run(plugin_->api(), program.get());
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

std::string Executable::serialize() const {
  const PJRT_Api* api = plugin_->api();
  const Program program(api, executable_);
  Args<PJRT_Executable_Serialize_Args> args;
  args.executable = program.get();
  PJRT_CALL(api, PJRT_Executable_Serialize, args);
  const auto free_bytes = args.serialized_executable_deleter;
  const std::unique_ptr<PJRT_SerializedExecutable, decltype(free_bytes)> owner(
      args.serialized_executable, free_bytes);
  return std::string(args.serialized_bytes, args.serialized_bytes_size);
}

std::string Executable::optimized_program() const {
  const PJRT_Api* api = plugin_->api();
  if (!has(api, &PJRT_Api::PJRT_Executable_OptimizedProgram)) {
    return "";
  }
  try {
    const Program program(api, executable_);
    Args<PJRT_Program> code;
    Args<PJRT_Executable_OptimizedProgram_Args> args;
    args.executable = program.get();
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
