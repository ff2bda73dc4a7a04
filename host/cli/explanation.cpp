#include "host/cli/explanation.h"

#include <algorithm>
#include <map>

#include "host/cli/compiled_program.h"
#include "host/cli/program_of_module.h"
#include "host/ops/op.h"
#include "host/support/error.h"

namespace gantry::cli {
namespace {

Why why_of(const FusionReason& reason, const OpDef& op) {
  return {std::string(name_of(reason.rule)), to_string(reason, op)};
}

/// What was put down while the program was compiled.
struct Records {
  FusionReport fusion;
  LayoutRecord layouts;
};

class Explainer {
 public:
  Explainer(const CompiledProgram& program, const Records& records, const ProgramFacts& facts)
      : program_(program), records_(records), facts_(facts) {
    for (const KernelStep& step : program.lowered.steps) steps_[step.node] = &step;
  }

  void run(Explanations& all) {
    for (const FusionReport::Kernel& kernel : records_.fusion.kernels)
      all.kernels.push_back(describe(kernel));
    for (const FusionReport::Edge& edge : records_.fusion.edges) add_read(edge, all);
    for (size_t i = 0; i < records_.fusion.kernels.size(); ++i) add_conversions(i, all);
    add_shares(all);
  }

 private:
  Explanations::Kernel describe(const FusionReport::Kernel& kernel) const {
    Explanations::Kernel described = described_step(*kernel.node);
    for (const FusionReport::Member& member : kernel.members) {
      const std::vector<Value*>& results = member.node->results;
      described.members.push_back({member.node->op->name, results.empty() ? "" : "%" + results[0]->name,
                                   why_of(member.why, op_def(*member.node))});
    }
    return described;
  }

  /// All but its members.
  Explanations::Kernel described_step(const Node& node) const {
    Explanations::Kernel described;
    const auto step = steps_.find(&node);
    if (step == steps_.end()) {
      internal_check(op_def(node).compute == nullptr, "no step of the plan runs a kernel of {}",
                     node.op->name);
      described.symbol = described.name = node.op->name;
      described.nodes = node.origin;
      return described;
    }
    const ProgramStep& facts = facts_.steps[step->second->step];
    described.step = step->second->step;
    described.misfit = step->second->misfit;
    described.symbol = facts.symbol;
    described.name = facts.name;
    described.nodes = facts.nodes;
    described.decision = facts.decision;
    described.rule = facts.rule;
    described.cost = cost_of(facts);
    return described;
  }

  static PredictedCost cost_of(const ProgramStep& facts) {
    PredictedCost cost;
    cost.cycles = facts.predicted_cycles;
    cost.ms = facts.predicted_ms;
    return cost;
  }

  void add_read(const FusionReport::Edge& edge, Explanations& all) const {
    Explanations::Read read;
    read.from = edge.from;
    read.value = "%" + records_.fusion.kernels[edge.from].node->result(edge.result)->name;
    for (const OpDef* view : edge.views) read.views.push_back(view->name);
    read.why = why_of(edge.why, *edge.maker);
    all.kernels[edge.to].reads.push_back(std::move(read));
  }

  void add_conversions(size_t kernel, Explanations& all) const {
    const auto& members = records_.fusion.kernels[kernel].members;
    const bool alone = std::ranges::all_of(members, [&](const FusionReport::Member& member) {
      return records_.layouts.find(*member.node) != nullptr || op_def(*member.node).is_view;
    });
    for (const FusionReport::Member& member : members) {
      const LayoutConversion* known = records_.layouts.find(*member.node);
      if (known == nullptr) continue;
      Explanations::Conversion conversion;
      conversion.kernel = kernel;
      conversion.on_the_way = !alone;
      conversion.op = member.node->op->name;
      conversion.value = "%" + member.node->result()->name;
      conversion.wish = name_of(known->wish);
      conversion.reader = known->reader == nullptr ? "" : known->reader->name;
      conversion.origin = known->origin;
      for (const Value* input : member.node->inputs) {
        if (input != nullptr) conversion.bytes = conversion.bytes + input->type.byte_size();
      }
      if (alone) {
        conversion.bytes = conversion.bytes + member.node->result()->type.byte_size();
        conversion.cost = all.kernels[kernel].cost;
      }
      all.conversions.push_back(std::move(conversion));
    }
  }

  static void add_shares(Explanations& all) {
    double cycles = 0, ms = 0;
    for (const Explanations::Kernel& kernel : all.kernels) {
      cycles += kernel.cost.cycles.value_or(0);
      ms += kernel.cost.ms.value_or(0);
    }
    const auto set_share = [&](PredictedCost& cost) {
      if (cost.cycles && cycles > 0) cost.share = *cost.cycles / cycles;
      if (cost.ms && ms > 0) cost.share = *cost.ms / ms;
    };
    for (Explanations::Kernel& kernel : all.kernels) set_share(kernel.cost);
    for (Explanations::Conversion& conversion : all.conversions) set_share(conversion.cost);
  }

  const CompiledProgram& program_;
  const Records& records_;
  const ProgramFacts& facts_;
  std::map<const Node*, const KernelStep*> steps_;
};

}  // namespace

Explanations explain_program(const Graph& graph, const Target& target, CompileOptions options) {
  Records records;
  options.observer.fusion = &records.fusion;
  options.observer.layouts = &records.layouts;
  PlannedProgram planned = plan_program(graph, target, options);
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(module_format::Manifest::Pack(builder, &planned.module.manifest));
  const auto& manifest = *flatbuffers::GetRoot<module_format::Manifest>(builder.GetBufferPointer());
  const module_format::Variant& variant = *manifest.variants()->Get(0);
  ProgramFacts facts = program_of_module(manifest, variant, {});
  const CompiledProgram program{std::move(planned.lowered), target};
  add_compiled(facts, variant, program);

  Explanations all;
  all.target = facts.target;
  Explainer(program, records, facts).run(all);
  all.memories = memory_maps(manifest, variant, facts);
  return all;
}

}  // namespace gantry::cli
