#include "host/cli/kernel_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "host/cli/text.h"
#include "host/codegen/codegen.h"
#include "host/ops/op.h"
#include "host/passes/fuse_ops.h"
#include "host/support/error.h"
#include "host/support/suggest.h"

namespace gantry::cli {
namespace {

constexpr const char* kHowToList = "`gantry ir MODEL --list` lists the kernels with their nodes";

bool comes_from(const Node& node, const std::string& name) {
  return std::ranges::find(node.origin, name) != node.origin.end();
}

std::string onnx_op(const ModelNodes& nodes, const std::string& name) {
  for (const auto& [node, op] : nodes) {
    if (node == name) return fmt::format("{} ({})", name, op);
  }
  return name;
}

std::string print_some(const Graph& graph, const std::vector<const Node*>& nodes) {
  return print_nodes(graph.main, nodes, FusedOpTable(op_set()));
}

}  // namespace

std::vector<const KernelStep*> KernelView::steps_of(size_t kernel) const {
  std::vector<const KernelStep*> steps;
  for (const KernelStep& step : program_.steps) {
    if (step.kernel == kernel) steps.push_back(&step);
  }
  return steps;
}

std::vector<size_t> KernelView::named(const std::string& name) const {
  std::vector<size_t> parts;
  std::vector<std::string> names;
  for (size_t i = 0; i < program_.kernels.size(); ++i) {
    names.push_back(program_.kernels[i].name);
    if (names.back() == name) return {i};
    if (names.back().find(name) != std::string::npos) parts.push_back(i);
  }
  if (!parts.empty()) return parts;
  const std::string hint = did_you_mean(name, names);
  user_error("--kernel {}: no kernel has that in its name{} {}", name, hint.empty() ? "." : hint, kHowToList);
}

std::vector<size_t> KernelView::of_node(const std::string& node) const {
  std::vector<size_t> kernels;
  for (const KernelStep& step : program_.steps) {
    const bool known = std::ranges::find(kernels, step.kernel) != kernels.end();
    if (!known && comes_from(*step.node, node)) kernels.push_back(step.kernel);
  }
  return kernels;
}

std::string KernelView::where_is(const std::string& node, const ModelNodes& nodes,
                                 const NodeHistory& history) const {
  std::vector<std::string> names;
  for (const auto& [name, op] : nodes) names.push_back(name);
  if (std::ranges::find(names, node) == names.end()) {
    const std::string hint = did_you_mean(node, names);
    user_error("--node {}: the model has no such node{} {}; `gantry ir MODEL --after import` shows all nodes",
               node, hint.empty() ? "." : hint, kHowToList);
  }
  const std::string what = onnx_op(nodes, node);
  if (const auto end = history.end_of(node))
    return fmt::format("node {}: no kernel computes it: {}\n", what, to_string(*end));
  std::vector<const Node*> views;
  for (const Node* other : program_.graph.main.nodes()) {
    if (comes_from(*other, node)) views.push_back(other);
  }
  return fmt::format("node {}: needs no kernel, as its result is its input's bytes as they lie:\n{}", what,
                     print_some(program_.graph, views));
}

std::string KernelView::summary(const std::string& node, const ModelNodes& nodes) const {
  std::vector<std::string> parts;
  for (size_t kernel : of_node(node)) {
    std::vector<std::string> steps;
    for (const KernelStep* step : steps_of(kernel)) {
      if (comes_from(*step->node, node)) steps.push_back(fmt::format("#{}", step->step));
    }
    parts.push_back(fmt::format("{} at {}", program_.kernels[kernel].name, fmt::join(steps, " ")));
  }
  return fmt::format("node {} is computed by {}", onnx_op(nodes, node), fmt::join(parts, ", "));
}

std::string KernelView::head(size_t kernel, std::string_view comment) const {
  std::string text =
      fmt::format("{} kernel {}: {}\n", comment, program_.kernels[kernel].name, program_.ops[kernel]);
  for (const KernelStep* step : steps_of(kernel))
    text += fmt::format("{}   step #{}: {}\n", comment, step->step, fmt::join(step->node->origin, ", "));
  return text;
}

std::string KernelView::text(size_t kernel, KernelTexts texts) const {
  const bool any = texts.graph || texts.loops || texts.llvm || texts.assembly;
  if (!any) texts = {true, true, false, true};
  const LoopKernel& loops = program_.kernels[kernel];
  std::string text;
  if (texts.graph) {
    std::vector<const Node*> nodes;
    for (const KernelStep* step : steps_of(kernel)) nodes.push_back(step->node);
    text += head(kernel, "//") + print_some(program_.graph, nodes) + "\n";
  }
  if (texts.loops) text += head(kernel, "//") + to_annotated_string(loops) + "\n";
  if (texts.llvm) text += head(kernel, ";") + emit_llvm_text(loops, target_) + "\n";
  if (texts.assembly)
    text += head(kernel, assembly_comment(loops, target_)) + emit_assembly(loops, target_, true) + "\n";
  return text;
}

std::string KernelView::list(size_t width) const {
  using Align = Table::Align;
  Table table({{"kernel", Align::kLeft},
               {"steps", Align::kLeft},
               {"ops", Align::kLeft},
               {"ONNX nodes", Align::kLeft}});
  constexpr size_t kMostSteps = 4;
  for (size_t i = 0; i < program_.kernels.size(); ++i) {
    std::vector<std::string> steps, nodes;
    for (const KernelStep* step : steps_of(i)) {
      steps.push_back(fmt::format("#{}", step->step));
      nodes.push_back(fmt::format("{}", fmt::join(step->node->origin, ", ")));
    }
    const bool more = steps.size() > kMostSteps;
    steps.resize(std::min(steps.size(), kMostSteps));
    table.row({program_.kernels[i].name, fmt::format("{}{}", fmt::join(steps, " "), more ? " …" : ""),
               program_.ops[i], fmt::format("{}", fmt::join(nodes, "; "))});
  }
  return table.str(0, width);
}

}  // namespace gantry::cli
