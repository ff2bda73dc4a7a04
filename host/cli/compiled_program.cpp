#include "host/cli/compiled_program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "host/codegen/codegen.h"
#include "host/driver/program.h"
#include "host/ops/movement.h"
#include "host/ops/op.h"
#include "host/passes/fuse_ops.h"
#include "host/support/error.h"
#include "host/targets/common/explain.h"
#include "host/targets/common/kernel_rules.h"

namespace gantry::cli {
namespace {

/// Dimensions of the model under the sizes that are known.
class KnownSizes {
 public:
  explicit KnownSizes(const std::map<std::string, int64_t>& sizes) {
    for (const auto& [name, size] : sizes) bindings_.emplace(name, Dim(size));
  }
  TensorType operator()(TensorType type) const {
    for (Dim& dim : type.shape) dim = dim.substitute(bindings_);
    return type;
  }

 private:
  std::map<std::string, Dim> bindings_;
};

/// "f32[1,64,56,56]"
std::string type_text(const TensorType& type) {
  std::vector<std::string> dims;
  for (const Dim& dim : type.shape) dims.push_back(dim.str());
  return fmt::format("{}[{}]", name_of(type.dtype), fmt::join(dims, ","));
}

class Describer {
 public:
  Describer(ProgramFacts& facts, const module_format::Variant& variant, const CompiledProgram& program,
            bool assembly)
      : facts_(facts),
        variant_(variant),
        program_(program),
        graph_(program.lowered.graph),
        sizes_(facts.sizes),
        assembly_(assembly) {}

  void run() {
    for (const KernelStep& step : program_.lowered.steps) name_buffers(step);
    add_views();
    for (const KernelStep& step : program_.lowered.steps) add_step(step);
  }

 private:
  /// The buffers of the step's call. Those of another program's plan mean nothing: an internal error.
  const flatbuffers::Vector<uint32_t>& buffers_of(const KernelStep& step) const {
    const std::string& kernel = program_.lowered.kernels.at(step.kernel).name;
    const auto& steps = *variant_.steps();
    const auto* call = step.step < steps.size()
                           ? steps.Get(static_cast<uint32_t>(step.step))->action_as_CallKernel()
                           : nullptr;
    internal_check(call != nullptr &&
                       variant_.kernels()->Get(call->kernel())->symbol()->string_view() == kernel &&
                       call->buffers()->size() >= step.inputs.size() + step.node->results.size(),
                   "step {} of the plan does not call {}", step.step, kernel);
    return *call->buffers();
  }

  void name_buffers(const KernelStep& step) {
    const auto& buffers = buffers_of(step);
    uint32_t at = 0;
    for (Value* input : step.inputs) name_value(buffers.Get(at++), root_of_views(input));
    for (Value* result : step.node->results) name_value(buffers.Get(at++), result);
  }

  void name_value(uint32_t id, const Value* value) {
    ids_[value] = id;
    ProgramValue& known = facts_.values[id];
    if (known.type.empty()) known.type = type_text(sizes_(value->type));
    if (known.kind == ProgramValue::Kind::kInput || known.kind == ProgramValue::Kind::kOutput) return;
    known.name = (value->is_constant() ? "@" : "%") + value->name;
  }

  void add_views() {
    for (const Node* node : graph_.main.nodes()) {
      if (!op_def(*node).is_view) continue;
      const auto root = ids_.find(root_of_views(node->result()));
      if (root == ids_.end()) continue;
      const ProgramValue& shown = facts_.values[root->second];
      ProgramValue view;
      view.kind = ProgramValue::Kind::kView;
      view.name = "%" + node->result()->name;
      view.type = type_text(sizes_(node->result()->type));
      view.bytes = shown.bytes;
      view.shows = root->second;
      view.on_gpu = shown.on_gpu;
      facts_.values.push_back(std::move(view));
    }
  }

  void add_step(const KernelStep& step) {
    ProgramStep& facts = facts_.steps[step.step];
    facts.graph = graph_lines(*step.node);
    explain_step(*step.node, facts);
    const LoopKernel& kernel = program_.lowered.kernels[step.kernel];
    facts.rule = find_kernel_rule(kernel.rule, target_of(*step.node));
    if (!seen_.insert(step.kernel).second) return;
    facts.loops = to_annotated_string(kernel);
    if (assembly_) facts.assembly = emit_assembly(kernel, target_of(*step.node), true);
  }

  /// The node behind the views that it reads.
  std::string graph_lines(const Node& node) const {
    std::vector<const Node*> lines;
    for (const Value* input : node.inputs) add_views_before(input, lines);
    lines.push_back(&node);
    return print_nodes(graph_.main, lines, FusedOpTable(op_set()));
  }
  void add_views_before(const Value* value, std::vector<const Node*>& lines) const {
    if (value == nullptr || value->kind != Value::Kind::kResult || !op_def(*value->producer).is_view) return;
    add_views_before(value->producer->inputs[0], lines);
    if (std::ranges::find(lines, value->producer) == lines.end()) lines.push_back(value->producer);
  }

  const Target& target_of(const Node& node) const {
    const Target& target = program_.target;
    return target.for_gpu() && node.placement == Placement::kCpu ? *target.host : target;
  }

  void explain_step(const Node& node, ProgramStep& facts) const {
    std::vector<const Node*> parts;
    if (node.bodies.empty()) {
      parts.push_back(&node);
    } else {
      for (const Node* inner : node.bodies.front()->nodes()) parts.push_back(inner);
    }
    const Target& target = target_of(node);
    for (const Node* part : parts) {
      // What a kernel reads in another order, it needs no time of its own for.
      if (parts.size() > 1 && part->is(op::transpose)) continue;
      const Explanation explanation = explain(*part, target);
      if (!explanation.decision.empty())
        facts.decision += (facts.decision.empty() ? "" : "; ") + explanation.decision;
      if (explanation.cycles)
        facts.predicted_cycles = facts.predicted_cycles.value_or(0) + *explanation.cycles;
      // An emulated GPU takes as long as it takes.
      if (explanation.seconds && target.device == DeviceKind::kGpu)
        facts.predicted_ms = facts.predicted_ms.value_or(0) + *explanation.seconds * 1e3;
    }
  }

  ProgramFacts& facts_;
  const module_format::Variant& variant_;
  const CompiledProgram& program_;
  const Graph& graph_;
  KnownSizes sizes_;
  bool assembly_;
  std::map<const Value*, uint32_t> ids_;
  std::set<size_t> seen_;  ///< kernels of steps before
};

}  // namespace

CompiledProgram without_weights(LoweredProgram lowered, const Target& target) {
  // Small ones stand in the text of the graph.
  constexpr size_t kSmallBytes = 4096;
  for (Value* value : lowered.graph.main.constants()) {
    if (!value->constant || value->constant->size <= kSmallBytes) continue;
    value->constant = std::make_shared<ConstantData>(ConstantData{value->type, nullptr, 0, nullptr});
  }
  return {std::move(lowered), target};
}

void add_compiled(ProgramFacts& facts, const module_format::Variant& variant, const CompiledProgram& program,
                  bool assembly) {
  Describer(facts, variant, program, assembly).run();
}

}  // namespace gantry::cli
