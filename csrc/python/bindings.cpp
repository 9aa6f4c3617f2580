// torch_tpu._C: bindings only. torch_tpu/_C.pyi says what each does.
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <pybind11/stl.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/pybind.h>

#include "device/counters.h"
#include "device/device.h"
#include "device/gil.h"
#include "device/value.h"
#include "eager/explain.h"
#include "eager/fusion.h"
#include "eager/precision.h"
#include "eager/recorder.h"
#include "python/compiler.h"
#include "python/errors.h"
#include "python/exit.h"
#include "python/graph.h"
#include "python/untraced.h"

namespace py = pybind11;

namespace torch_tpu {

namespace {

using NoGil = py::call_guard<py::gil_scoped_release>;

Runtime& runtime() { return Runtime::get(); }

decltype(pjrt::Option::second) option_value(py::handle value) {
  if (py::isinstance<py::bool_>(value)) return value.cast<bool>();
  if (py::isinstance<py::int_>(value)) return value.cast<int64_t>();
  return value.cast<std::string>();
}

void bind_runtime(py::module_& module) {
  module.def("register", [] {
    register_allocator();
    register_hooks();
    register_kernels();
    set_compiler(python_compiler());
    register_fusion();
    register_errors();
  });
  module.def("set_runtime", [](py::function resolve) {
    // Leaked on purpose: it is called until the process ends, without knowing of the interpreter.
    py::handle callable = resolve.release();
    runtime().set_resolver([callable] {
      py::gil_scoped_acquire gil;
      const Untraced untraced;
      auto [path, options] = callable().cast<std::pair<std::string, py::dict>>();
      RuntimeChoice choice{path, {}};
      for (auto [name, value] : options) {
        choice.options.emplace_back(name.cast<std::string>(), option_value(value));
      }
      return choice;
    });
  });
  module.def("finish_backward", finish_backward);
  module.def("lazy_init", [] { runtime().client(); }, NoGil());
  module.def("is_initialized", [] { return runtime().initialized(); });
  module.def("is_in_bad_fork", [] { return runtime().in_bad_fork(); });
  module.def("device_count", [] { return runtime().device_count(); }, NoGil());
  module.def("current_device", [] { return runtime().current_device(); });
  module.def("set_device", [](int ordinal) { runtime().set_current_device(ordinal); }, NoGil());
  module.def(
      "exchange_device", [](int ordinal) { return runtime().exchange_device(ordinal); }, NoGil());
  module.def("platform_name", [] { return runtime().client().platform_name(); }, NoGil());
  module.def("platform_version", [] { return runtime().client().platform_version(); }, NoGil());
  module.def("api_version", [] { return runtime().client().plugin()->api_version(); }, NoGil());
  module.def("plugin_path", [] { return runtime().plugin_path(); });
  module.def(
      "device_kind",
      [](int ordinal) { return runtime().client().device_kind(runtime().checked(ordinal)); },
      NoGil());
  module.def("device_attributes", [](int ordinal) {
    py::dict attributes;
    for (auto& [name, value] : runtime().client().device_attributes(runtime().checked(ordinal))) {
      attributes[py::str(name)] = value;
    }
    return attributes;
  });
  module.def("register_ffi_handler",
             [](const std::string& target, py::capsule handler, const std::string& platform) {
               return runtime().client().plugin()->register_ffi_handler(
                   target, handler.get_pointer(), platform);
             });
  module.def(
      "synchronize", [](int ordinal) { runtime().synchronize(runtime().checked(ordinal)); },
      NoGil());
}

void bind_memory(py::module_& module) {
  module.def("memory_stats", [](int ordinal) {
    Ordinal device = runtime().checked(ordinal);
    MemoryUse& use = MemoryUse::of(device);
    py::dict stats;
    stats["bytes_in_use"] = use.bytes_in_use.load();
    stats["peak_bytes"] = use.peak_bytes.load();
    stats["peak_tensor_bytes"] = use.peak_tensor_bytes.load();
    stats["allocated_bytes_total"] = use.allocated_total.load();
    stats["freed_bytes_total"] = use.freed_total.load();
    stats["allocations"] = use.allocations.load();
    stats["frees"] = use.frees.load();
    stats["num_alloc_retries"] = 0;
    stats["num_ooms"] = use.out_of_memory.load();
    stats["bytes_limit"] = memory_limit(device);
    return stats;
  });
  module.def("reset_peak_memory_stats",
             [](int ordinal) { MemoryUse::of(runtime().checked(ordinal)).reset_peak(); });
  module.def("reset_accumulated_memory_stats",
             [](int ordinal) { MemoryUse::of(runtime().checked(ordinal)).reset_accumulated(); });
  module.def("empty_cache", [] {});
  module.def("default_generator", [](int ordinal) {
    Ordinal device = ordinal < 0 ? runtime().current_device() : static_cast<Ordinal>(ordinal);
    return py::reinterpret_steal<py::object>(THPGenerator_Wrap(default_generator(device)));
  });
}

// Each report as a tuple; torch_tpu/diagnostics/explain.py names its fields.
py::list take_flush_reports() {
  py::list result;
  auto record = [](const Plan* plan) {
    return plan == nullptr
               ? py::none()
               : py::reinterpret_borrow<py::object>(static_cast<PyObject*>(plan->record));
  };
  for (const FlushReport& report : take_reports()) {
    result.append(py::make_tuple(static_cast<int>(report.reason), static_cast<int>(report.outcome),
                                 report.ops, report.kept, report.bytes, report.site.text(),
                                 report.difference, record(report.now), record(report.before),
                                 report.compared, report.op_site.text()));
  }
  return result;
}

void bind_diagnostics(py::module_& module) {
  module.def("matmul_precision", [] { return static_cast<int>(matmul_precision()); });
  module.def("eager_mode", [] { return static_cast<int>(eager_mode()); });
  module.def(
      "set_eager_mode", [](int mode) { set_eager_mode(static_cast<EagerMode>(mode)); }, NoGil());
  module.def(
      "flush",
      [](int ordinal) { Fusion::of(runtime().checked(ordinal)).flush(FlushReason::kOptimizer); },
      NoGil());
  module.def("set_collecting", [](bool collecting) {
    set_collecting(collecting && eager_mode() == EagerMode::kFused);
  });
  module.def("set_async_compile", &set_async_compile);
  module.def("set_max_programs", &set_max_programs);
  module.def("set_library_folders", &set_library_folders);
  module.def("set_explaining", &set_explaining);
  module.def("take_flush_reports", &take_flush_reports);
  module.def("set_stage_timing", [](bool enabled) {
    StageTimes& times = StageTimes::instance();
    if (enabled) {
      for (auto& each : times.nanoseconds) each = 0;
    }
    times.enabled = enabled;
  });
  module.def("stage_times", [] {
    StageTimes& times = StageTimes::instance();
    py::dict result;
    for (size_t i = 0; i < StageTimes::kNames.size(); ++i) {
      result[py::str(std::string(StageTimes::kNames[i]))] = times.nanoseconds[i].load();
    }
    return result;
  });
  module.def("set_nan_checks", &set_nan_checks);
  module.def("set_op_printing", &set_op_printing);
  module.def("counters", [] {
    py::dict result;
    for (auto& [name, counter] : counters().all())
      result[py::str(std::string(name))] = counter->get();
    int64_t in_use = 0, peak = 0;
    if (runtime().initialized()) {
      for (Ordinal i = 0; i < runtime().device_count(); ++i) {
        in_use += MemoryUse::of(i).bytes_in_use;
        peak += MemoryUse::of(i).peak_bytes;
      }
    }
    result["bytes_in_use"] = in_use;
    result["peak_bytes"] = peak;
    return result;
  });
  module.def("reset_counters", [] {
    for (auto& [name, counter] : counters().all()) counter->reset();
  });
  module.def("count", [](const std::string& name, int64_t amount) {
    for (auto& [each, counter] : counters().all()) {
      if (each == name) return counter->add(amount);
    }
    throw py::key_error(name);
  });
}

void bind_programs(py::module_& module) {
  py::class_<pjrt::Executable, std::shared_ptr<pjrt::Executable>>(module, "Executable")
      .def_property_readonly("num_outputs", &pjrt::Executable::num_outputs)
      .def("serialize",
           [](const pjrt::Executable& self) { return py::bytes(self.program().serialize()); })
      .def("optimized_program", [](const pjrt::Executable& self) {
        return py::bytes(self.program().optimized_program());
      });
  py::class_<pjrt::CompiledProgram, std::shared_ptr<pjrt::CompiledProgram>>(module,
                                                                            "CompiledProgram")
      .def_property_readonly("num_outputs", &pjrt::CompiledProgram::num_outputs)
      .def_property_readonly("run_bytes", &pjrt::CompiledProgram::run_bytes)
      .def("serialize",
           [](const pjrt::CompiledProgram& self) { return py::bytes(self.serialize()); })
      .def("optimized_program",
           [](const pjrt::CompiledProgram& self) { return py::bytes(self.optimized_program()); });
  py::class_<pjrt::Topology, std::shared_ptr<pjrt::Topology>>(module, "Topology")
      .def(py::init([](const std::string& plugin_path, const std::string& name) {
             return pjrt::Topology::create(pjrt::Plugin::load(plugin_path), name);
           }),
           py::arg("plugin_path"), py::arg("name"), NoGil())
      .def_property_readonly("device_count", &pjrt::Topology::device_count)
      .def_property_readonly("device_kind", &pjrt::Topology::device_kind)
      .def(
          "compile",
          [](const pjrt::Topology& self, const std::string& mlir,
             const std::vector<pjrt::Flag>& flags) {
            return self.compile(mlir, pjrt::compile_options(0, flags));
          },
          py::arg("mlir"), py::arg("flags") = py::tuple(), NoGil());
  module.def(
      "compile",
      [](const std::string& mlir, int ordinal, const std::vector<pjrt::Flag>& flags) {
        return runtime().client().compile(mlir, pjrt::compile_options(ordinal, flags));
      },
      py::arg("mlir"), py::arg("ordinal"), py::arg("flags") = py::tuple(), NoGil());
  module.def(
      "deserialize",
      [](const std::string& serialized) { return runtime().client().deserialize(serialized); },
      NoGil());
}

}  // namespace

}  // namespace torch_tpu

PYBIND11_MODULE(_C, module) {
  torch_tpu::bind_runtime(module);
  torch_tpu::bind_memory(module);
  torch_tpu::bind_diagnostics(module);
  torch_tpu::bind_programs(module);
  torch_tpu::bind_graphs(module);
}
