// The Python side of a captured graph: reads its arguments, asks for programs, wraps its results.
#include "python/graph.h"

#include <ATen/ops/_local_scalar_dense.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <deque>

#include "device/counters.h"
#include "device/site.h"
#include "device/storage.h"
#include "eager/graph.h"
#include "python/compiler.h"
#include "python/untraced.h"

namespace py = pybind11;

namespace torch_tpu {

namespace {

enum class ArgumentKind : uint8_t { kTensor, kInt, kFloat, kComplex, kUnused };

ArgumentKind kind_of(const std::string& name) {
  static const std::map<std::string, ArgumentKind> kinds = {
      {"tensor", ArgumentKind::kTensor}, {"int", ArgumentKind::kInt},
      {"float", ArgumentKind::kFloat},   {"complex", ArgumentKind::kComplex},
      {"unused", ArgumentKind::kUnused},
  };
  return kinds.at(name);
}

py::tuple describe(const Binding& binding) {
  return py::make_tuple(binding.filled, tuple_of(binding.value_dims), py::cast(binding.value_dtype),
                        tuple_of(binding.sizes), tuple_of(binding.strides), py::cast(binding.dtype),
                        binding.offset, binding.aligned, binding.conj, binding.neg, binding.slot);
}

// Checks of programs; launches that have not reported yet point to them.
const std::vector<Check>* keep_checks(py::handle source) {
  static auto& kept = *std::make_unique<std::deque<std::vector<Check>>>().release();
  std::vector<Check> checks;
  for (py::handle each : source) {
    auto [error, message, file, line] =
        each.cast<std::tuple<std::string, std::string, std::string, int>>();
    checks.push_back({error, message, file.empty() ? Site{} : site_at(file, line)});
  }
  static const std::vector<Check> none;
  if (checks.empty()) return &none;
  kept.push_back(std::move(checks));
  return &kept.back();
}

GraphProgram read_graph_program(py::handle source) {
  GraphProgram made{keep_resident(read_program(source.attr("program")))};
  made.created = read_created(source.attr("created"));
  made.writes = read_writes(source.attr("writes"));
  made.checks = keep_checks(source.attr("checks"));
  return made;
}

class PythonGraph {
 public:
  PythonGraph(std::string label, const std::vector<std::string>& kinds,
              const std::vector<std::tuple<bool, bool, bool>>& tensors, int64_t draws,
              Ordinal ordinal, py::function make)
      : graph_(std::move(label), inputs_of(tensors), draws, ordinal,
               [make = std::move(make)](const GraphCall& call) { return ask(make, call); }) {
    for (const std::string& kind : kinds) kinds_.push_back(kind_of(kind));
  }

  // The boxed convention: `arguments` is emptied, so that what only it held can be reused.
  py::list run(const py::list& arguments) { return run_open(arguments, {}, {}, {}); }

  py::list run_open(const py::list& arguments, const std::vector<int64_t>& symbols,
                    std::vector<int64_t> bounds, const std::vector<int64_t>& sizes) {
    GraphCall call(graph_.inputs(), graph_.ordinal(), std::move(bounds));
    for (int64_t symbol : symbols) call.add_number(symbol);
    TORCH_CHECK(arguments.size() == kinds_.size(), "torch_tpu: a graph of ", kinds_.size(),
                " arguments got ", arguments.size());
    for (size_t i = 0; i < kinds_.size(); ++i) {
      add(call, kinds_[i], PyList_GET_ITEM(arguments.ptr(), i));
    }
    PyList_SetSlice(arguments.ptr(), 0, PyList_GET_SIZE(arguments.ptr()), nullptr);
    std::vector<at::Tensor> created = graph_.run(call, sizes);
    py::list results(created.size());
    for (size_t i = 0; i < created.size(); ++i) {
      PyList_SET_ITEM(results.ptr(), i, THPVariable_Wrap(std::move(created[i])));
    }
    return results;
  }

 private:
  static std::vector<GraphInput> inputs_of(
      const std::vector<std::tuple<bool, bool, bool>>& tensors) {
    std::vector<GraphInput> inputs;
    for (auto [written, reusable, padded] : tensors) {
      inputs.push_back({written, reusable, padded});
    }
    return inputs;
  }

  static GraphProgram ask(const py::function& make, const GraphCall& call) {
    counters().python_entries.add(1);
    py::gil_scoped_acquire gil;
    const Untraced untraced;
    py::list bindings;
    for (const Binding& binding : call.bindings()) bindings.append(describe(binding));
    const std::vector<uint32_t> donated(call.donated.begin(), call.donated.end());
    return read_graph_program(make(bindings, donated, call.bounds));
  }

  void add(GraphCall& call, ArgumentKind kind, PyObject* object) {
    switch (kind) {
      case ArgumentKind::kTensor: {
        TORCH_CHECK_TYPE(THPVariable_Check(object), "torch_tpu: a graph expected a tensor, got ",
                         Py_TYPE(object)->tp_name);
        const at::Tensor& tensor = THPVariable_Unpack(object);
        if (tensor.is_cpu()) [[unlikely]] {  // the graph moves it to the device
          call.add_tensor(tensor.to(c10::Device(c10::DeviceType::PrivateUse1, graph_.ordinal())));
        } else {
          call.add_tensor(tensor);
        }
        return;
      }
      case ArgumentKind::kInt:
        call.add_number(THPVariable_Check(object) ? number_of(object).toLong()
                                                  : py::handle(object).cast<int64_t>());
        return;
      case ArgumentKind::kFloat:
        call.add_number(THPVariable_Check(object) ? number_of(object).toDouble()
                                                  : py::handle(object).cast<double>());
        return;
      case ArgumentKind::kComplex: {
        const auto number = THPVariable_Check(object)
                                ? std::complex<double>(number_of(object).toComplexDouble())
                                : py::handle(object).cast<std::complex<double>>();
        call.add_number(number.real());
        call.add_number(number.imag());
        return;
      }
      case ArgumentKind::kUnused:
        return;
    }
  }
  // A 0-dim CPU tensor's.
  static at::Scalar number_of(PyObject* object) {
    return at::_local_scalar_dense(THPVariable_Unpack(object));
  }

  std::vector<ArgumentKind> kinds_;
  Graph graph_;
};

}  // namespace

void bind_graphs(py::module_& module) {
  py::class_<PythonGraph>(module, "Graph")
      .def(py::init<std::string, const std::vector<std::string>&,
                    const std::vector<std::tuple<bool, bool, bool>>&, int64_t, Ordinal,
                    py::function>())
      .def("run", &PythonGraph::run)
      .def("run_open", &PythonGraph::run_open);
  // Another device's storages have no cell to look into.
  auto refuse_others = [](const at::Tensor& tensor) {
    TORCH_CHECK(tensor.is_privateuseone(), "expected a tensor on tpu, it is on ", tensor.device());
  };
  module.def("value_dims", [refuse_others](const at::Tensor& tensor) -> py::object {
    refuse_others(tensor);
    const ValuePtr value = cell_of(tensor).load();
    return value ? py::object(tuple_of(value->dims())) : py::none();
  });
  module.def("store_value", [refuse_others](const at::Tensor& tensor, const at::Tensor& host) {
    refuse_others(tensor);
    cell_of(tensor).store(from_host(host, tensor.device().index()));
  });
}

}  // namespace torch_tpu
