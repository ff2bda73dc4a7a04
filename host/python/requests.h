// What Python asks for, as the options that the program's commands have.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <utility>
#include <vector>

#include "host/cli/compare_run.h"
#include "host/cli/execution.h"
#include "host/cli/invocation.h"

namespace gantry::python {

/// Collects warnings and notes for Python, and lets Ctrl-C through.
class Listener {
 public:
  /// Says nothing on stderr; Ctrl-C ends what it compiles.
  cli::Invocation invocation();
  /// Between two steps of something long, without Python's lock: throws what Python's signal handlers throw.
  static void check_interrupt();
  /// (message, is a warning), in order, for Python, whose lock is held.
  pybind11::list messages() const;

 private:
  std::vector<std::pair<std::string, bool>> messages_;
};

/// A model or module and how to run it: keys as ExecutionOptions's members; "module" a Module, "contents" the
/// bytes of a model. What is absent has its default.
cli::ExecutionOptions execution_options(const pybind11::dict& request);
/// How to measure: keys as MeasureOptions's members.
cli::MeasureOptions measure_options(const pybind11::dict& request);
cli::CompareMeasureOptions compare_options(const pybind11::dict& request);

/// compile, and what is known without a model: targets, versions.
void add_compile(pybind11::module_& module);
/// bench, compare, run, boards.
void add_measure(pybind11::module_& module);
/// The gantry program.
void add_program(pybind11::module_& module);

}  // namespace gantry::python
