// Text of stages: as they are scheduled, and as the steps of lowering find out more about them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "host/loops/stage_program.h"

namespace gantry {
namespace {

void line(std::string& text, const std::string& content) {
  text += "    " + content + "\n";
}

std::string list(const std::vector<Expr>& exprs) {
  std::vector<std::string> parts;
  for (const Expr& e : exprs) parts.push_back(to_string(e));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string_view word(StorageScope scope) {
  switch (scope) {
    case StorageScope::kGlobal:
      return "";
    case StorageScope::kLocal:
      return ", local";
    case StorageScope::kShared:
      return ", in shared memory";
    case StorageScope::kFragment:
      return ", in fragments of matrix instructions";
  }
  return "";
}

std::string_view word(TailStrategy tail) {
  switch (tail) {
    case TailStrategy::kGuard:
      return "";
    case TailStrategy::kShiftInwards:
      return ", the last one shifted inwards";
    case TailStrategy::kShiftOrGuard:
      return ", the last one shifted inwards where it can be";
  }
  return "";
}

std::string word(const Attachment& attachment) {
  if (attachment.is_inline()) return "inline";
  if (attachment.is_root()) return "at root";
  return fmt::format("at {} of {}{}", attachment.axis()->name(), attachment.consumer()->op()->name,
                     attachment.once_a_thread() ? ", once a thread" : "");
}

/// What is computed, and where.
std::string head(const Stage& stage, StorageScope scope, const std::string& sources) {
  const OperationNode& op = *stage.op();
  std::vector<std::string> results;
  for (size_t i = 0; i < op.result_shapes.size(); ++i)
    results.push_back(fmt::format("{}[{}]", name_of(op.result_dtypes[i]), list(op.result_shapes[i])));
  std::string text = sources.empty() ? "" : fmt::format("  // {}\n", sources);
  return text + fmt::format("  stage {}: {} {}{}\n", op.name, fmt::join(results, ", "),
                            word(stage.attachment()), word(scope));
}

void add_relations(const Stage& stage, std::string& text) {
  for (const AxisRelation& relation : stage.relations()) {
    const std::string parent = relation.parent->name(), outer = relation.outer->name(), inner = relation.inner->name();
    line(text, relation.kind == AxisRelation::Kind::kFuse
                   ? fmt::format("fuse {}, {}: {}", outer, inner, parent)
                   : fmt::format("split {} by {}: {}, {}{}", parent, to_string(relation.factor), outer, inner,
                                 word(relation.tail)));
  }
}

std::string kind_of(const Stage& stage, const IterVar* leaf) {
  const std::string reduce = leaf->kind == IterVar::Kind::kReduce ? "reduce " : "";
  return std::string(loop_word(stage.kinds().of(leaf))) + " " + reduce;
}

void add_choices(const Stage& stage, std::string& text) {
  if (stage.mma()) line(text, "the three innermost loops are a matrix instruction");
  if (stage.tiles())
    line(text, fmt::format("the five innermost loops are products of {}", name_of(*stage.tiles())));
  if (const Expr& end = stage.region().rows_end)
    line(text, fmt::format("rows from {} on are not read", to_string(end)));
  if (stage.memory().row_padding > 0)
    line(text, fmt::format("rows are {} elements longer", stage.memory().row_padding));
  if (stage.memory().double_buffered) line(text, "double-buffered");
  if (stage.region().bounded) line(text, "only what is read");
  if (stage.summation().part_axis)
    line(text, fmt::format("summed in parts from {} inwards", stage.summation().part_axis->name()));
  for (const IterVarPtr& axis : stage.summation().half_axes)
    line(text, fmt::format("summed in f16 from {} inwards", axis->name()));
  for (const IterVarPtr& axis : stage.region().shifted)
    line(text, fmt::format("regions of {} shift inwards", axis->name()));
  for (const Expr& claim : stage.summation().zero_unless)
    line(text, fmt::format("zero unless {}", to_string(claim)));
  for (const PrefetchHint& hint : stage.prefetches().hints)
    line(text, fmt::format("prefetch {}[{}] at {}", hint.tensor.op()->name, list(hint.indices), hint.at->name()));
  for (const FetchAhead& fetch : stage.prefetches().ahead) {
    line(text, fmt::format("fetch the next {} elements of {} at {}", fetch.elements, fetch.source->name,
                           fetch.axis->name()));
  }
}

void add_body(const OperationNode& op, const Expr& body, std::string& text) {
  if (body) return line(text, "= " + to_string(body));
  std::vector<std::string> inputs;
  for (const Tensor& input : op.extern_inputs) inputs.push_back(input.op()->name);
  line(text, fmt::format("= a nest written by hand, of {}", fmt::join(inputs, ", ")));
}

std::string scheduled(const Stage& stage, StorageScope scope, const Expr& body, const std::string& sources) {
  std::string text = head(stage, scope, sources);
  if (stage.attachment().is_inline()) {
    add_body(*stage.op(), body, text);
    return text;
  }
  std::vector<std::string> axes, leaves;
  for (const auto* kind : {&stage.op()->axes, &stage.op()->reduce_axes})
    for (const IterVarPtr& axis : *kind)
      axes.push_back(fmt::format("{} in [{}, +{})", axis->name(), to_string(axis->low ? axis->low : Expr(0)),
                                 to_string(axis->extent)));
  if (!axes.empty()) line(text, fmt::format("axes {}", fmt::join(axes, ", ")));
  add_relations(stage, text);
  for (const IterVarPtr& leaf : stage.leaves()) line(text, kind_of(stage, leaf.get()) + leaf->name());
  add_choices(stage, text);
  add_body(*stage.op(), body, text);
  return text;
}

std::string_view word(StageGuard::Kind kind) {
  switch (kind) {
    case StageGuard::Kind::kSplit:
      return "within the axis";
    case StageGuard::Kind::kDomain:
      return "within the tensor";
    case StageGuard::Kind::kUnread:
      return "rows that are read";
    case StageGuard::Kind::kThread:
      return "of the threads";
    case StageGuard::Kind::kTerm:
      return "terms that are not zero";
  }
  return "";
}

/// Of a stage whose loops are known.
std::string looped(const StageState& state) {
  const Stage& stage = *state.stage;
  std::string text =
      head(stage, state.scope == StorageScope::kGlobal ? stage.memory().scope : state.scope, state.sources);
  for (size_t d = 0; d < state.low.size(); ++d) {
    const IterVarPtr& axis = state.op().axes[d];
    line(text, fmt::format("region {} in [{}, +{})", axis->name(), to_string(state.low[d]), to_string(state.extent[d])));
  }
  for (size_t i = 0; i < state.leaf_vars.size(); ++i) {
    line(text, fmt::format("{}{} in [0, +{})", kind_of(stage, stage.leaves()[i].get()),
                           to_string(state.leaf_vars[i]), to_string(state.leaf_extents[i])));
  }
  for (const auto* kind : {&state.op().axes, &state.op().reduce_axes})
    for (const IterVarPtr& axis : *kind)
      line(text, fmt::format("at {} = {}", axis->name(), to_string(state.axis_values.at(axis->var.as<VarNode>()))));
  for (const StageGuard& guard : state.guards)
    line(text, fmt::format("if {}  // {}", to_string(guard.condition), word(guard.kind)));
  if (state.group.index) line(text, fmt::format("threads {} of {}", to_string(state.group.index), state.group.size));
  add_choices(stage, text);
  add_body(state.op(), state.body, text);
  return text;
}

}  // namespace

std::string StageProgram::text() const {
  std::string text;
  if (states.empty()) {
    for (const auto& stage : schedule.stages()) {
      if (stage->op()->kind != OperationNode::Kind::kPlaceholder)
        text += scheduled(*stage, stage->memory().scope, stage->op()->body, stage->op()->source);
    }
    return text;
  }
  for (const auto& state : states) {
    const bool known = !state->axis_values.empty();
    text += known ? looped(*state)
                  : scheduled(*state->stage, state->stage->memory().scope, state->body, state->sources);
    if (state->buffer) line(text, fmt::format("{} {}", state->whole_buffer ? "in" : "a part in", to_string(*state->buffer)));
  }
  return text;
}

}  // namespace gantry
