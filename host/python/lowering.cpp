// Schedules to loop nests, code and modules.
#include <pybind11/stl.h>

#include <memory>
#include <set>

#include "host/cli/model_source.h"
#include "host/codegen/find_target.h"
#include "host/compiler/compiler.h"
#include "host/python/errors.h"
#include "host/python/module.h"
#include "host/python/requests.h"
#include "host/python/schedules.h"

namespace py = pybind11;

namespace gantry::python {
namespace {

struct LoopStep {
  std::string name, text;
  bool changed;
};
struct LoopNest {
  LoopKernel kernel;
  std::vector<LoopStep> steps;
};

void check_identifier(const std::string& name) {
  const auto letter = [](char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  bool good = !name.empty() && letter(name[0]);
  for (const char c : name) good = good && (letter(c) || (c >= '0' && c <= '9'));
  if (!good) user_error("'{}' is no name of a function: letters, digits and _, no digit first", name);
}

/// The kernel's inputs. User errors: one is computed, or two have one name.
std::vector<Tensor> inputs_of(const py::object& given) {
  const std::vector<Tensor> inputs = host_tensors(tensors_of(given, "the inputs"));
  std::set<std::string> names;
  for (const Tensor& input : inputs) {
    if (input.op()->kind != OperationNode::Kind::kPlaceholder)
      user_error("the input {} is computed; inputs are placeholders", input.op()->name);
    if (!names.insert(input.op()->name).second)
      user_error("two inputs are named {}: calls need to tell them apart", input.op()->name);
  }
  return inputs;
}

LoopNest lower(const Schedule& schedule, const std::vector<Tensor>& inputs, const std::string& name) {
  check_inlined(schedule);
  LoopNest nest;
  std::string before;
  const auto observe = [&](std::string_view step, const LoopKernel& kernel) {
    std::string text = to_string(kernel);
    const bool changed = text != before;
    before = text;
    nest.steps.push_back({std::string(step), std::move(text), changed});
  };
  nest.kernel = request([&] { return run_loop_passes(lower_schedule(schedule, inputs, name, observe), observe); });
  return nest;
}

std::shared_ptr<LoopNest> lower_from_python(const SchedulePtr& schedule, const py::object& inputs,
                                            const std::string& name) {
  check_identifier(name);
  const std::vector<Tensor> from = inputs_of(inputs);
  const ScheduleReader reader(schedule);
  return without_lock([&] { return std::make_shared<LoopNest>(lower(*reader, from, name)); });
}

Target target_for(const SchedulePtr& schedule, const std::string& name) {
  Target target = find_target(name);
  if (target.for_gpu() != schedule->schedule.for_gpu)
    user_error("the schedule is for a {}, and {} is a {}: te.Schedule(…, gpu={})",
               target.for_gpu() ? "CPU" : "GPU", target.name, target.for_gpu() ? "GPU" : "CPU",
               target.for_gpu() ? "True" : "False");
  return target;
}

std::shared_ptr<LoadedModule> build_from_python(const SchedulePtr& schedule, const py::object& inputs,
                                                const std::string& target, const std::string& name) {
  check_identifier(name);
  const std::vector<Tensor> from = inputs_of(inputs);
  const Target machine = target_for(schedule, target);
  const ScheduleReader reader(schedule);
  return without_lock([&] {
    lower(*reader, from, name);  // what is wrong with the schedule is found here; what fails later is a bug
    CompileOptions options;
    options.targets = {machine};
    options.observer.progress = [](const std::string&, double) { Listener::check_interrupt(); };
    const Graph graph = graph_of(from, *reader, name, options);
    ModuleFile file = compile_graph(graph, options);
    return std::make_shared<LoadedModule>(cli::aligned_copy(serialize_module(file)), name);
  });
}

std::string code_of(const std::shared_ptr<LoopNest>& nest, const std::string& target,
                    std::string (*emit)(const LoopKernel&, const Target&)) {
  const Target machine = find_target(target);
  if ((machine.device == DeviceKind::kGpu) != is_gpu_kernel(nest->kernel))
    user_error("{}: the loop nest is for a {}", machine.name, is_gpu_kernel(nest->kernel) ? "GPU" : "CPU");
  return without_lock([&] { return emit(nest->kernel, machine); });
}

}  // namespace

void add_lowering(py::module_& module) {
  py::class_<LoopStep> step(module, "LoopStep", "A loop nest after one step of lowering.");
  step.attr("__module__") = "gantry.te";
  step.def_readonly("name", &LoopStep::name, "\"schedule\", …, \"build_nests\", \"simplify\", …")
      .def_readonly("text", &LoopStep::text, "The loop nest; of steps before there is one, the stages.")
      .def_readonly("changed", &LoopStep::changed, "Whether it differs from the one before.")
      .def("__repr__", [](const LoopStep& self) {
        return "<gantry.te step " + self.name + (self.changed ? ">" : ", which changed nothing>");
      });

  py::class_<LoopNest, std::shared_ptr<LoopNest>> nest(
      module, "LoopNest",
      "What a schedule computes, as loops over buffers; ``print`` shows it as code is generated from it.");
  nest.attr("__module__") = "gantry.te";
  nest.def_readonly("steps", &LoopNest::steps, "After each step of lowering, in order.")
      .def("__str__", [](const LoopNest& self) { return to_string(self.kernel); })
      .def("__repr__", [](const LoopNest& self) { return "<gantry.te loop nest " + self.kernel.name + ">"; })
      .def(
          "assembly",
          [](const std::shared_ptr<LoopNest>& self, const std::string& target) {
            return code_of(self, target, [](const LoopKernel& kernel, const Target& machine) {
              return emit_assembly(kernel, machine);
            });
          },
          py::arg("target") = "native", "Its assembly for a target; PTX for a GPU.")
      .def(
          "llvm",
          [](const std::shared_ptr<LoopNest>& self, const std::string& target) {
            return code_of(self, target, &emit_llvm_text);
          },
          py::arg("target") = "native", "Its LLVM IR, optimised for a target.");
  module.def("lower", &lower_from_python, py::arg("schedule"), py::arg("inputs"), py::kw_only(),
             py::arg("name") = "kernel",
             "The schedule's loop nest, of a kernel that takes these placeholders and gives the schedule's "
             "outputs.");
  module.def("build", &build_from_python, py::arg("schedule"), py::arg("inputs"), py::kw_only(),
             py::arg("target") = "native", py::arg("name") = "kernel");
}

}  // namespace gantry::python
