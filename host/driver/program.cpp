#include "host/driver/program.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <unordered_map>

#include "host/driver/pipeline.h"
#include "host/ops/device_copy.h"
#include "host/ops/op.h"
#include "host/support/error.h"

namespace gantry {
namespace {

// Names the kernels of a program: C identifiers that say what runs, each once.
class KernelNames {
 public:
  /// "nn.conv[winograd4]+add+nn.relu" -> "conv_add_relu_1". All have a number: "exp" alone would be the name
  /// of a function of the C library too.
  std::string name_for(const std::string& ops) {
    const std::string base = base_of(ops);
    return fmt::format("{}_{}", base, ++counts_[base]);
  }

 private:
  static constexpr size_t kMaxLength = 36;

  // The ops without their families and algorithms; of many as many as are worth reading.
  static std::string base_of(const std::string& ops) {
    std::string base;
    for (size_t begin = 0; begin < ops.size();) {
      const size_t end = end_of_op(ops, begin);
      const std::string op = identifier(ops.substr(begin, end - begin));
      if (!base.empty() && base.size() + 1 + op.size() > kMaxLength) return base + "_etc";
      base += (base.empty() ? "" : "_") + op;
      begin = end + 1;
    }
    return base;
  }
  static size_t end_of_op(const std::string& ops, size_t begin) {
    const size_t bracket = ops.find('[', begin), plus = ops.find('+', begin);
    if (bracket == std::string::npos || bracket > plus) return std::min(plus, ops.size());
    return std::min(ops.find('+', ops.find(']', bracket)), ops.size());
  }
  static std::string identifier(const std::string& op) {
    const std::string_view name = std::string_view(op).substr(0, op.find('['));
    const size_t family = name.rfind('.');
    std::string text(family == std::string_view::npos ? name : name.substr(family + 1));
    std::ranges::replace_if(
        text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
    return text;
  }

  std::map<std::string, size_t> counts_;
};

std::string where(const Node& node) {
  std::string text;
  for (const std::string& name : node.origin) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "(no node of the model)" : text;
}

/// Every result is empty.
bool computes_nothing(const Node& node) {
  return std::ranges::all_of(node.results, [](const Value* result) {
    const Dim count = element_count(result->type.shape);
    return count.is_constant() && count.value() == 0;
  });
}

BuiltKernel build_named(const Node& node, const Target& target, const std::string& name,
                        const LoopObserver& observe, const CompileOptions& options) {
  try {
    return build_kernel(node, target, name, observe, options);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("while lowering {} for node {}: {}", display_name(node),
                                          where(node), error.what()));
  }
}

}  // namespace

Program build_program(const Graph& graph, const Target& target, const CompileOptions& options) {
  Program program{clone_graph(graph), {}, {}, {}, {}, {}};
  const Target host = host_target(target);
  program.decisions = run_graph_passes(program.graph, target, options);
  std::unordered_map<std::string, size_t> known;
  KernelNames names;
  size_t step = 0;
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
    if (is_device_copy(node)) ++step;
    if (op_def(node).is_view || is_device_copy(node) || computes_nothing(node)) continue;
    const bool on_gpu = target.for_gpu() && node.placement != Placement::kCpu;
    TimedSpan span(options.observer.spans, "lowering", "");
    BuiltKernel built = build_named(node, on_gpu ? target : host, "kernel", record, options);
    auto [entry, is_new] = known.try_emplace(to_string(built.kernel), program.kernels.size());
    if (is_new) {
      const std::string ops = display_name(node);
      built.kernel.name = names.name_for(ops);
      for (auto& [step, kernel] : steps) {
        kernel.name = built.kernel.name;
        observer(step, kernel);
      }
      program.kernels.push_back(std::move(built.kernel));
      program.ops.push_back(ops);
      program.main_ops.push_back(main_op(node));
      program.on_gpu.push_back(on_gpu);
    }
    span.rename(program.kernels[entry->second].name);
    span.say("ops", program.ops[entry->second]);
    span.say("nodes", where(node));
    program.calls.push_back({&node, entry->second, step++, std::move(built.inputs), std::move(built.dims),
                             std::move(built.scratch_bytes), std::move(built.grids), std::move(built.loops)});
  }
  return program;
}

}  // namespace gantry
