#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include "host/cli/trace_file.h"
#include "host/codegen/find_target.h"
#include "host/machine/target.h"
#include "host/python/errors.h"
#include "host/python/given_size.h"
#include "host/python/module.h"
#include "host/python/requests.h"
#include "host/support/error.h"

namespace py = pybind11;

namespace gantry::python {
namespace {

struct CompileRequest {
  std::string file;  ///< or what messages call `contents`
  cli::Contents contents;
  std::vector<std::string> targets;
  GivenSizes sizes;
  std::vector<std::map<std::string, int64_t>> specializations;
  std::string precision, optimize;
  int opt_level;
  bool verify, use_cache, force;
  std::string output;  ///< empty: none
  std::vector<std::string> custom_ops, kept_inputs;
  std::string trace;  ///< empty: none
};

std::shared_ptr<LoadedModule> compile(const CompileRequest& request, Listener& listener) {
  const std::vector<Target> targets = cli::find_targets(request.targets);
  const Precision precision = find_precision(request.precision);
  const Optimize optimize = find_optimize(request.optimize);
  if (cli::is_module(request.file, request.contents))
    user_error("{}: is a module already; compile takes a model (.onnx), load takes modules", request.file);
  cli::Invocation invocation = listener.invocation();
  if (request.contents.owner == nullptr) invocation.outputs->reads(request.file, "the model");
  if (!request.output.empty())
    invocation.outputs->writes(request.output, cli::FileKind::kModule, "output", request.force);
  cli::begin_trace(request.trace, request.force, invocation, "trace");
  cli::Progress progress(invocation.verbosity());
  Graph graph = cli::import_model(request.file,
                                  {.sizes = request.sizes,
                                   .optimize = optimize,
                                   .contents = request.contents,
                                   .custom_ops = cli::read_custom_ops(request.custom_ops, invocation),
                                   .kept_inputs = {request.kept_inputs.begin(), request.kept_inputs.end()}},
                                  invocation);
  cli::check_kept_inputs(graph, request.kept_inputs, request.file, "keep_inputs: ");
  CompileOptions options = cli::compile_options(targets, request.opt_level, progress, &invocation);
  options.precision = precision;
  options.optimize = optimize;
  options.specializations = request.specializations;
  options.verify = request.verify;
  options.cache = cli::open_cache(request.use_cache);
  options.observer.spans = invocation.spans.get();
  ModuleFile module = compile_graph(std::move(graph), options);
  if (!request.output.empty()) {
    const TimedSpan span(invocation.spans.get(), "compile", "write the module");
    write_module(module, request.output);
  }
  if (!request.trace.empty())
    cli::write_trace({{cli::recorded_tracks(invocation, "compile")}}, request.trace,
                     cli::expect_trace_format(request.trace, "trace"));
  if (!request.output.empty()) return LoadedModule::open(request.output);
  return std::make_shared<LoadedModule>(cli::aligned_copy(serialize_module(module)), request.file);
}

py::tuple compile_from_python(const std::string& file, const py::object& contents,
                              std::vector<std::string> targets, decltype(GivenSizes::shapes) shapes,
                              decltype(GivenSizes::sizes) sizes,
                              std::vector<std::map<std::string, int64_t>> specializations,
                              std::string precision, std::string optimize, int opt_level, bool verify,
                              bool use_cache, std::string output, bool force,
                              std::vector<std::string> custom_ops, std::vector<std::string> kept_inputs,
                              std::string trace) {
  CompileRequest request{file,
                         {},
                         std::move(targets),
                         {std::move(shapes), std::move(sizes)},
                         std::move(specializations),
                         std::move(precision),
                         std::move(optimize),
                         opt_level,
                         verify,
                         use_cache,
                         force,
                         std::move(output),
                         std::move(custom_ops),
                         std::move(kept_inputs),
                         std::move(trace)};
  if (!contents.is_none()) {
    const std::string_view bytes = contents.cast<py::bytes>();
    request.contents = cli::aligned_copy(std::as_bytes(std::span(bytes)));
  }
  Listener listener;
  auto module = without_lock([&] { return compile(request, listener); });
  return py::make_tuple(std::move(module), listener.messages());
}

py::list targets() {
  py::list list;
  const auto add = [&](const std::string& name, const std::string& description) {
    list.append(py::make_tuple(name, description));
  };
  add("native", "this machine: " + find_target("native").name);
  for (const Target& target : known_targets()) add(target.name, target.description);
  return list;
}

}  // namespace

void add_compile(py::module_& module) {
  module.def("compile", &compile_from_python);
  module.def("targets", &targets);
  module.def("is_module_file", [](const std::string& path) { return cli::is_module_file(path); });
}

}  // namespace gantry::python
