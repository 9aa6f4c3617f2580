#include "call.h"

namespace torch_tpu::pjrt {

std::shared_ptr<Topology> Topology::create(std::shared_ptr<Plugin> plugin,
                                           const std::string& name) {
  Args<PJRT_TopologyDescription_Create_Args> args;
  args.topology_name = name.data();
  args.topology_name_size = name.size();
  PJRT_CALL(plugin->api(), PJRT_TopologyDescription_Create, args);
  struct Access : Topology {  // make_shared can't reach the private constructor
    Access(std::shared_ptr<Plugin> plugin, PJRT_TopologyDescription* topology)
        : Topology(std::move(plugin), topology) {}
  };
  return std::make_shared<Access>(std::move(plugin), args.topology);
}

Topology::~Topology() {
  Args<PJRT_TopologyDescription_Destroy_Args> args;
  args.topology = topology_;
  call_quietly(plugin_->api(), &PJRT_Api::PJRT_TopologyDescription_Destroy, args);
}

std::span<PJRT_DeviceDescription* const> Topology::devices() const {
  Args<PJRT_TopologyDescription_GetDeviceDescriptions_Args> args;
  args.topology = topology_;
  PJRT_CALL(plugin_->api(), PJRT_TopologyDescription_GetDeviceDescriptions, args);
  return {args.descriptions, args.num_descriptions};
}

size_t Topology::device_count() const { return devices().size(); }

std::string Topology::device_kind() const {
  Args<PJRT_DeviceDescription_String_Args> args;
  args.device_description = devices().front();
  PJRT_CALL(plugin_->api(), PJRT_DeviceDescription_Kind, args);
  return std::string(args.text, args.text_size);
}

std::shared_ptr<CompiledProgram> Topology::compile(std::string_view mlir,
                                                   std::string_view options) const {
  const std::string own = options.empty() ? compile_options(0) : "";
  const Args<PJRT_Program> program = mlir_program(mlir);
  Args<PJRT_Compile_Args> args;
  args.topology = topology_;
  args.program = &program;
  args.compile_options = options.empty() ? own.data() : options.data();
  args.compile_options_size = options.empty() ? own.size() : options.size();
  PJRT_CALL(plugin_->api(), PJRT_Compile, args);
  return std::make_shared<CompiledProgram>(plugin_, args.executable);
}

}  // namespace torch_tpu::pjrt
