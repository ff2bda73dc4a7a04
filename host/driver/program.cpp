#include "host/driver/program.h"

#include <cctype>
#include <unordered_map>

#include "host/driver/pipeline.h"
#include "host/ops/device_copy.h"
#include "host/ops/op.h"
#include "host/support/error.h"

namespace gantry {
namespace {

constexpr size_t kMaxSymbolLength = 48;

// A C identifier that still tells a reader of a backtrace what runs.
std::string symbol_for(const std::string& display, size_t index) {
  std::string symbol = "k" + std::to_string(index) + "_";
  bool in_brackets = false;  // the ops alone
  for (char c : display) {
    in_brackets = c == '[' || (in_brackets && c != ']');
    if (in_brackets || c == ']') continue;
    symbol += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  }
  return symbol.substr(0, kMaxSymbolLength);
}

std::string where(const Node& node) {
  std::string text;
  for (const std::string& name : node.origin) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "(no node of the model)" : text;
}

BuiltKernel build_named(const Node& node, const Target& target, const std::string& name,
                        const LoopObserver& observe) {
  try {
    return build_kernel(node, target, name, observe);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("while lowering {} for node {}: {}", display_name(node),
                                          where(node), error.what()));
  }
}

}  // namespace

Value* root_of_views(Value* value) {
  while (value->kind == Value::Kind::kResult && value->producer->op->is_view)
    value = value->producer->inputs[0];
  return value;
}

Program build_program(const Graph& graph, const Target& target, const CompileOptions& options) {
  Program program{Graph{graph.model_name, graph.main.clone()}, {}, {}, {}, {}};
  const Target host = host_target(target);
  run_graph_passes(program.graph, target, options);
  std::unordered_map<std::string, size_t> known;
  const LoopObserver& observer = options.observer.loop_pass;
  // Equal kernels are one, whose name is only known once it is built: the observer hears of it then.
  std::vector<std::pair<std::string, LoopKernel>> steps;
  LoopObserver record;
  if (observer)
    record = [&](std::string_view step, const LoopKernel& kernel) { steps.emplace_back(step, kernel); };
  const auto& nodes = program.graph.main.nodes();
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = *nodes[i];
    steps.clear();
    if (options.observer.progress) {
      options.observer.progress("lowering " + target.name, double(i) / double(nodes.size()));
    }
    if (node.op->is_view || is_device_copy(node)) continue;
    const bool on_gpu = target.for_gpu() && node.placement != Placement::kCpu;
    BuiltKernel built = build_named(node, on_gpu ? target : host, "kernel", record);
    auto [entry, is_new] = known.try_emplace(to_string(built.kernel), program.kernels.size());
    if (is_new) {
      std::string display = display_name(node);
      built.kernel.name = symbol_for(display, program.kernels.size());
      for (auto& [step, kernel] : steps) {
        kernel.name = built.kernel.name;
        observer(step, kernel);
      }
      program.kernels.push_back(std::move(built.kernel));
      program.display_names.push_back(std::move(display));
      program.on_gpu.push_back(on_gpu);
    }
    program.calls.push_back({&node, entry->second, std::move(built.inputs), std::move(built.dims),
                             std::move(built.scratch_bytes), std::move(built.grids), std::move(built.loops)});
  }
  return program;
}

}  // namespace gantry
