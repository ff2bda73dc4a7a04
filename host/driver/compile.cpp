#include "host/driver/compile.h"

#include "host/driver/module_builder.h"
#include "host/driver/program.h"
#include "host/support/error.h"

namespace gantry {

LoweredProgram lower_program(const Graph& graph, const Target& target, const CompileOptions& options) {
  Program program = build_program(graph, with_precision(target, options.precision), options);
  return {std::move(program.graph), std::move(program.kernels)};
}

ModuleFile compile_graph(const Graph& graph, const CompileOptions& options) {
  if (options.targets.empty()) user_error("no target given: name one with --target (see `gantry targets`)");
  ModuleBuilder builder(graph);
  auto progress = [&](const std::string& what, double done) {
    if (options.observer.progress) options.observer.progress(what, done);
  };
  for (const Target& named : options.targets) {
    const Target target = with_precision(named, options.precision);
    Program program = build_program(graph, target, options);
    progress("generating code for " + target.name, 0);
    CodeImage image = build_image(program.kernels, target, options.threads);
    builder.add_variant(program, target, std::move(image));
    progress("generating code for " + target.name, 1);
  }
  return builder.finish();
}

}  // namespace gantry
