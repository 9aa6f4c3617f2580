// The miss path: hands a call to Python and reads back a plan.
#include "python/compiler.h"

#include <pybind11/functional.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include "device/counters.h"
#include "eager/plan.h"
#include "python/untraced.h"

namespace py = pybind11;

namespace torch_tpu {

namespace {

Dims dims_of(py::handle object) {
  Dims dims;
  for (py::handle each : object) dims.push_back(each.cast<int64_t>());
  return dims;
}

}  // namespace

py::tuple tuple_of(c10::IntArrayRef items) {
  py::tuple tuple(items.size());
  for (size_t i = 0; i < items.size(); ++i) tuple[i] = items[i];
  return tuple;
}

ProgramPtr read_program(py::handle source) {
  if (source.is_none()) return nullptr;
  std::vector<Parameter> parameters;
  for (py::handle parameter : source.attr("parameters")) {
    if (py::isinstance<py::int_>(parameter)) {
      parameters.push_back({Parameter::Source::kInput, parameter.cast<uint32_t>()});
    } else {
      const bool ints = parameter.cast<std::string>() == "ints";
      parameters.push_back({ints ? Parameter::Source::kInts : Parameter::Source::kFloats});
    }
  }
  auto executable = source.attr("executable").cast<std::shared_ptr<pjrt::Executable>>();
  return std::make_shared<Program>(std::move(executable), std::move(parameters));
}

std::vector<NewTensor> read_created(py::handle source) {
  std::vector<NewTensor> created;
  for (py::handle each : source) {
    created.push_back({dims_of(each.attr("sizes")), dims_of(each.attr("strides")),
                       dims_of(each.attr("value_dims")),
                       each.attr("dtype").cast<c10::ScalarType>()});
  }
  return created;
}

std::vector<Write> read_writes(py::handle source) {
  std::vector<Write> writes;
  for (py::handle each : source) {
    writes.push_back({each.attr("slot").cast<uint32_t>(), dims_of(each.attr("dims")),
                      each.attr("dtype").cast<c10::ScalarType>()});
  }
  return writes;
}

namespace {

// Walks a call's arguments in the order in which Call did, so numbers find their places.
class ArgumentWriter {
 public:
  ArgumentWriter(const Call& call, const py::module_& node)
      : call_(call), edge_(node.attr("Edge")), number_(node.attr("Number")) {}

  py::object write(const c10::IValue& value, const Argument& argument) {
    if (value.isTensor()) return write_tensor(value.toTensor());
    if (value.isBool()) {
      return argument.runtime ? integer("bool") : py::object(py::bool_(value.toBool()));
    }
    if (value.isInt() && argument.meaning != Meaning::kPlain) {
      return enumerator(value.toInt(), argument.meaning);
    }
    if (value.isInt()) {
      return argument.runtime ? integer("int") : py::object(py::int_(value.toInt()));
    }
    if (value.isDouble()) {
      return argument.runtime ? floating("float") : py::object(py::float_(value.toDouble()));
    }
    if (value.isComplexDouble()) {
      if (argument.runtime) return floating("complex");
      auto number = value.toComplexDouble();
      return py::reinterpret_steal<py::object>(PyComplex_FromDoubles(number.real(), number.imag()));
    }
    if (value.isString()) return py::str(value.toStringRef());
    if (value.isList()) {
      py::list list;
      for (const c10::IValue& each : value.toListRef()) list.append(write(each, argument));
      return list;
    }
    return py::none();  // None, a device, a generator
  }

 private:
  static py::object enumerator(int64_t number, Meaning meaning) {
    switch (meaning) {
      case Meaning::kScalarType:
        return py::cast(static_cast<c10::ScalarType>(number));
      case Meaning::kLayout:
        return py::cast(static_cast<c10::Layout>(number));
      case Meaning::kMemoryFormat:
        return py::cast(static_cast<c10::MemoryFormat>(number));
      case Meaning::kPlain:
        break;
    }
    return py::int_(number);
  }
  py::object write_tensor(const at::Tensor& tensor) {
    if (!tensor.defined()) return py::none();
    py::object dtype = py::cast(tensor.scalar_type());
    if (tensor.is_cpu()) {
      bool wrapped = tensor.unsafeGetTensorImpl()->is_wrapped_number();
      if (tensor.is_complex()) return floating("complex", dtype, wrapped);
      if (tensor.is_floating_point()) return floating("float", dtype, wrapped);
      return integer(tensor.scalar_type() == c10::kBool ? "bool" : "int", dtype, wrapped);
    }
    return edge_(call_.slot_of(*tensor.unsafeGetTensorImpl()), tuple_of(tensor.sizes()),
                 tuple_of(tensor.strides()), tensor.storage_offset(), dtype, tensor.is_conj(),
                 tensor.is_neg());
  }
  py::object integer(const char* kind, py::object dtype = py::none(), bool wrapped = true) {
    return number_(kind, ints_++, dtype, wrapped);
  }
  py::object floating(const char* kind, py::object dtype = py::none(), bool wrapped = true) {
    int place = floats_;
    floats_ += std::string_view(kind) == "complex" ? 2 : 1;
    return number_(kind, place, dtype, wrapped);
  }

  const Call& call_;
  py::object edge_, number_;
  int ints_ = 0, floats_ = 0;
};

Return read_return(py::handle source) {
  if (source.is_none()) return {Return::Kind::kUndefined};
  if (py::isinstance<py::list>(source)) {
    Return list{Return::Kind::kList};
    for (py::handle item : source) list.items.push_back(read_return(item));
    return list;
  }
  static const std::map<std::string, Return::Kind> kinds = {
      {"new", Return::Kind::kNew},
      {"argument", Return::Kind::kArgument},
      {"number", Return::Kind::kNumber},
  };
  auto [kind, place] = source.cast<std::pair<std::string, int64_t>>();
  return {kinds.at(kind), place};
}

std::unique_ptr<Plan> read_plan(py::handle source) {
  auto plan = std::make_unique<Plan>();
  if (source.is_none()) {
    plan->fallback = true;
    return plan;
  }
  // Never freed: plans live as long as the process.
  plan->record = py::reinterpret_borrow<py::object>(source).release().ptr();
  plan->created = read_created(source.attr("created"));
  plan->writes = read_writes(source.attr("writes"));
  for (py::handle each : source.attr("resizes")) {
    plan->resizes.push_back({each.attr("argument").cast<std::vector<uint32_t>>(),
                             dims_of(each.attr("sizes")), dims_of(each.attr("strides"))});
  }
  for (py::handle each : source.attr("returns")) plan->returns.push_back(read_return(each));
  for (py::handle each : source.attr("checks")) {
    auto [error, message] = each.cast<std::pair<std::string, std::string>>();
    plan->checks.push_back({error, message, {}});
  }
  plan->size_program = read_program(source.attr("size_program"));
  return plan;
}

// Python's exception, in a form that may cross threads without the GIL.
template <typename Body>
auto with_python(Body body) {
  counters().python_entries.add(1);
  py::gil_scoped_acquire gil;
  try {
    const Untraced untraced;
    return body();
  } catch (py::error_already_set& error) {
    error.restore();
    python_error persistent;
    persistent.persist();
    throw persistent;
  }
}

class PythonCompiler final : public Compiler {
 public:
  void describe(Op& op) override {
    with_python([&] {
      py::object answer = module().attr("describe")(op.name);
      if (!answer.is_none()) {
        for (size_t i = 0; i < op.arguments.size(); ++i) {
          op.arguments[i].runtime = answer[py::int_(i)].cast<bool>();
        }
        op.has_rule = true;
      }
      op.described.store(true, std::memory_order_release);
    });
  }

  std::unique_ptr<Plan> plan(const Call& call, std::optional<int64_t> bound) override {
    return with_python([&] {
      py::module_ node = py::module_::import("torch_tpu.compiler.node");
      ArgumentWriter writer(call, node);
      py::list arguments, slots;
      for (size_t i = 0; i < call.op.arguments.size(); ++i) {
        arguments.append(writer.write(call.argument(i), call.op.arguments[i]));
      }
      for (const Slot& slot : call.slots) {
        slots.append(
            node.attr("Slot")(tuple_of(slot.dims), py::cast(slot.dtype), slot.value != nullptr));
      }
      py::object described =
          node.attr("Node")(call.op.name, arguments, slots, call.ints.size(), call.floats.size());
      py::bytes key(call.key.view().data(), call.key.view().size());
      return read_plan(module().attr("plan")(described, key, call.ordinal, bound));
    });
  }

  ProgramPtr compile(const ProgramSource& source) override {
    return with_python([&] { return read_program(module().attr("program")(trace_of(source))); });
  }

  ProgramPtr find_stored(const ProgramSource& source) override {
    return with_python(
        [&] { return read_program(module().attr("stored_program")(trace_of(source))); });
  }

  void compile_later(const ProgramSource& source, std::function<void(ProgramPtr)> done) override {
    with_python([&] {
      auto adopt = [done](py::object program) { done(read_program(program)); };
      py::module_::import("torch_tpu.compiler.background")
          .attr("compile_later")(trace_of(source), py::cpp_function(adopt));
    });
  }

  bool must_not_compile() override {
    return with_python([&] { return module().attr("must_not_compile")().cast<bool>(); });
  }

  void report_failed_fusion(const ProgramSource& source, const std::string& reason) override {
    with_python([&] { module().attr("report_failed_fusion")(trace_of(source), reason); });
  }

  void report_fallback(const Op& op, const torch::jit::Stack& stack) override {
    with_python([&] {
      py::list dtypes;
      for (size_t i = stack.size() - op.arguments.size(); i < stack.size(); ++i) {
        if (stack[i].isTensor() && stack[i].toTensor().defined()) {
          dtypes.append(py::cast(stack[i].toTensor().scalar_type()));
        }
      }
      py::module_::import("torch_tpu.diagnostics.fallback").attr("report")(op.name, dtypes);
    });
  }

 private:
  static py::object trace_of(const ProgramSource& source) {
    py::module_ trace = py::module_::import("torch_tpu.compiler.trace");
    py::object step_type = trace.attr("Step");
    py::list steps;
    for (const ProgramSource::Step& step : source.steps) {
      steps.append(step_type(py::handle(static_cast<PyObject*>(step.plan->record)),
                             py::tuple(py::cast(step.edges))));
    }
    return trace.attr("Trace")(steps, source.live, source.donated, source.ordinal);
  }
  static py::module_ module() { return py::module_::import("torch_tpu.compiler"); }
};

}  // namespace

std::unique_ptr<Compiler> python_compiler() { return std::make_unique<PythonCompiler>(); }

}  // namespace torch_tpu
