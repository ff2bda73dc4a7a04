// gantry._native: what the Python package is made of.
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include "gantry/runtime.h"
#include "host/cli/commands.h"
#include "host/cli/outputs.h"
#include "host/python/arrays.h"
#include "host/python/errors.h"
#include "host/python/expressions.h"
#include "host/python/module.h"
#include "host/python/requests.h"
#include "host/support/cleanup.h"
#include "host/support/output_file.h"
#include "host/support/program.h"
#include "host/support/shortened_file.h"

namespace py = pybind11;

namespace gantry::python {

/// The whole gantry program; the interpreter is there for it alone.
int run_program(std::vector<std::string> arguments) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  const py::gil_scoped_release released;
  cleanup::start();
  report_shortened_files();
  return cli::run_program(static_cast<int>(arguments.size()), pointers.data());
}

/// Writes a document of a schema: "gantry-bench", "gantry-comparison", or another.
void write_document(const std::string& path, const std::string& text, const std::string& schema, bool force) {
  const cli::FileKind kind = schema == "gantry-bench"        ? cli::FileKind::kResult
                             : schema == "gantry-comparison" ? cli::FileKind::kComparison
                                                             : cli::FileKind::kOther;
  without_lock([&] {
    cli::OutputPlan().writes(path, kind, "", force);
    write_file(path, text);
  });
}

void add_program(py::module_& module) {
  module.def("run_program", &run_program);
  module.def("use_own_folder", [](const std::filesystem::path& folder) { use_own_folder(folder); });
  module.def("use_own_command", [](std::vector<std::string> words) { use_own_command(std::move(words)); });
  module.def("version", &gantry_version);
  module.def("write_document", &write_document);
}

/// gantry.te: tensor expressions, schedules, loop nests.
void add_tensor_expressions(py::module_& module) {
  add_expressions(module);
  add_expression_functions(module);
  add_schedules(module);
  add_loop_builder(module);
  add_lowering(module);
}

}  // namespace gantry::python

PYBIND11_MODULE(_native, module) {
  using namespace gantry::python;
  translate_errors();
  add_tensor_class(module);
  add_module_class(module);
  add_session_class(module);
  add_compile(module);
  add_measure(module);
  add_program(module);
  pybind11::module_ te = module.def_submodule("te");
  add_tensor_expressions(te);
}
