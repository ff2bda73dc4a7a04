// What `gantry ir` shows: the graph at a stage, kernels, decisions, and why.
#pragma once

#include <string>
#include <vector>

#include "host/cli/invocation.h"
#include "host/cli/refusal.h"

namespace gantry::cli {

struct IrOptions {
  std::string model;
  std::string target = "native";
  std::string before, after, kernel, node, explained, folder, output;
  std::vector<std::string> shapes, sizes, custom_ops, kept_inputs;
  std::string precision = "auto", optimize = "speed", decisions, records;
  int opt_level = 3, record_threads = 0;
  bool all = false, loops = false, llvm = false, assembly = false, list = false, verify = false;
  bool explain = false, json = false, forms = false;
  bool list_passes = false, force = false;
  GivenOptions given;

  bool shows_kernels() const { return loops || llvm || assembly || !kernel.empty() || !node.empty(); }
};

/// "import" and the passes, in order.
std::vector<std::string> stages(int opt_level);

/// Returns the exit code. User errors for views that others leave nothing to show of, beside those of the
/// model and of the compiler.
int show_ir(const IrOptions& options, const Invocation& invocation);

}  // namespace gantry::cli
