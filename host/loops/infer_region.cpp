// The part of a stage's result that its readers need at the place where it is attached.
#include <algorithm>

#include "host/loops/stage_program.h"
#include "host/support/error.h"
#include "host/tensor/fold.h"

namespace gantry {

bool reads_data(const Expr& e) {
  bool reads = false;
  walk(e, [&](const Expr& x) { reads |= x->kind == ExprKind::kRead; });
  return reads;
}

/// Variables of the loops around the place where `state` is computed.
std::set<const VarNode*> StageProgram::enclosing_vars(const StageState& state) const {
  std::set<const VarNode*> vars;
  for (const Stage* stage = state.stage; stage->attachment().is_at_loop();) {
    const StageState& consumer = *by_stage.at(stage->attachment().consumer());
    int leaf = consumer.leaf_index(stage->attachment().axis().get());
    internal_check(leaf >= 0, "{} is attached to {} at {}, which is not one of its loops", stage->op()->name,
                   consumer.op().name, stage->attachment().axis()->name());
    for (int i = 0; i <= leaf; ++i) vars.insert(consumer.leaf_vars[static_cast<size_t>(i)].as<VarNode>());
    stage = consumer.stage;
  }
  return vars;
}

/// Those of enclosing_vars() whose iterations each have a result of their own: a block's threads share what
/// is in shared memory, a warp's lanes share a fragment, a thread's iterations what it made once.
std::set<const VarNode*> StageProgram::fixed_vars(const StageState& state) const {
  constexpr int64_t kWarp = 32;
  if (state.stage->attachment().once_a_thread()) return {};
  std::set<const VarNode*> vars = enclosing_vars(state);
  if (!state.is_cooperative() && state.scope != StorageScope::kFragment) return vars;
  std::erase_if(vars, [&](const VarNode* var) {
    const auto& [owner, leaf] = loop_vars.at(var);
    if (!owner->is_thread_leaf(leaf)) return false;
    if (state.is_cooperative()) return true;
    return owner->threads_of(leaf, static_cast<int>(owner->leaf_vars.size())) <= kWarp;
  });
  return vars;
}

/// Widens the region by one read (`exact`: never to less than what it reads); false if every dimension
/// already is the whole tensor.
bool StageProgram::add_read(StageState& state, const std::vector<Expr>& indices,
                        const std::set<const VarNode*>& fixed, bool first, bool exact) {
  auto inner = [&](const VarNode* var) { return !var->is_symbol && !fixed.count(var); };
  for (size_t d = 0; d < indices.size(); ++d) {
    const Expr& whole = state.op().axes[d]->extent;
    auto set_whole = [&] {
      state.low[d] = Expr(0);
      state.extent[d] = simplifier.simplify(whole);
    };
    if (!first && structurally_equal(state.extent[d], simplifier.simplify(whole))) continue;
    auto range = simplifier.range_over(indices[d], inner);
    if (!range || reads_data(range->low)) {  // an index that is data may be any
      set_whole();
      continue;
    }
    int64_t low = 0, high = range->extent;
    Expr base = range->low;
    if (!first) {
      auto distance = constant_of(simplifier.simplify(range->low - state.low[d]));
      auto known = constant_of(state.extent[d]);
      if (!distance || !known) {
        set_whole();
        continue;
      }
      base = state.low[d];
      low = std::min<int64_t>(0, *distance);
      high = std::max(*known, *distance + range->extent);
    }
    state.low[d] = simplifier.simplify(base + Expr(low));
    state.extent[d] = Expr(high - low);
    auto size = constant_of(simplifier.simplify(whole));
    // Tiles of a block go beyond the tensor's end as they are (filled with zeros), so that nothing that reads
    // them needs a condition, unless that wastes much.
    int64_t keep = state.is_cooperative() && size && *size > 1 ? 2 * *size : 0;
    if (!exact && size && high - low >= *size && high - low > keep) set_whole();
  }
  return true;
}

namespace {

/// Iterations of a reduction that do not count are skipped, with what is attached inside (without_padding()).
bool may_skip_iterations(const StageState& reader) {
  bool chooses = false;
  if (reader.body.as<ReduceNode>()) {
    walk(reader.body, [&](const Expr& e) {
      const auto* call = e.as<CallNode>();
      chooses |= call != nullptr && call->fn == MathFn::kIfThenElse;
    });
  }
  const bool ends = static_cast<bool>(reader.stage->region().rows_end);
  return chooses || ends || !reader.stage->summation().zero_unless.empty();
}

/// The axis of which the index is the variable, which then takes all values from 0 on; null: there is none.
const IterVar* axis_of(const Expr& index, const OperationNode& reader) {
  for (const auto* axes : {&reader.axes, &reader.reduce_axes}) {
    for (const IterVarPtr& axis : *axes) {
      const bool from_zero = !axis->low || constant_of(axis->low) == 0;
      if (axis->var.same_as(index) && from_zero) return axis.get();
    }
  }
  return nullptr;
}

}  // namespace

/// Whether one of its reads, whose indices are axes of the reader's own, goes over all elements of `op`.
bool StageProgram::reads_all(const StageState& reader, const OperationNode& op) const {
  if (!reader.body || may_skip_iterations(reader)) return false;
  for (const auto* axes : {&reader.op().axes, &reader.op().reduce_axes}) {
    for (const IterVarPtr& axis : *axes) {
      if (constant_of(axis->extent).value_or(0) < 1) return false;
    }
  }
  bool all = false;
  walk(reader.body, [&](const Expr& e) {
    const auto* read = e.as<ReadNode>();
    if (!read || schedule.find(read->op.get()) != schedule.find(&op)) return;
    std::set<const IterVar*> axes;
    for (size_t d = 0; d < read->indices.size(); ++d) {
      const IterVar* axis = axis_of(read->indices[d], reader.op());
      if (axis && constant_of(axis->extent) == constant_of(op.axes[d]->extent)) axes.insert(axis);
    }
    all |= axes.size() == read->indices.size();
  });
  return all;
}

/// By a reader of which all is computed.
bool StageProgram::is_read_whole(const StageState& state) const {
  return std::ranges::any_of(states, [&](const auto& reader) {
    return reads_all(*reader, state.op()) && (!reader->computes_part() || is_read_whole(*reader));
  });
}

/// What an output's readers do not read must be computed, too; and an iteration must not begin sums anew that
/// another thread reads, nor read without a barrier what another thread has stored.
void StageProgram::check_attached_output(const StageState& state) const {
  if (!state.whole_buffer || !state.stage->attachment().is_at_loop()) return;
  const std::string& consumer = state.stage->attachment().consumer()->op()->name;
  internal_check(!state.is_cooperative() && !state.stage->attachment().once_a_thread(),
                 "{} is an output: attached to {} it cannot be in shared memory or made once a thread",
                 state.op().name, consumer);
  const bool divides_work = std::ranges::any_of(state.stage->leaves(), [&](const IterVarPtr& leaf) {
    return state.stage->kinds().of(leaf.get()) == LoopKind::kThread;
  });
  internal_check(!divides_work,
                 "{} is an output: attached to {} its own loops cannot be bound to threads, which would read "
                 "what others of them have not stored yet",
                 state.op().name, consumer);
  internal_check(
      is_read_whole(state),
      "{} is an output, but computed in {} would be only what is read there: each of its indices must be "
      "another axis of its reader, as long as its own; or compute it at root",
      state.op().name, consumer);
}

/// Variables of the loops around the place where `state` is computed whose iterations run at once, outermost
/// first.
std::vector<Expr> StageProgram::vars_at_once(const StageState& state) const {
  std::vector<Expr> vars;
  for (const Stage* stage = state.stage; stage->attachment().is_at_loop();) {
    const StageState& consumer = *by_stage.at(stage->attachment().consumer());
    const int last = consumer.leaf_index(stage->attachment().axis().get());
    std::vector<Expr> own;
    for (int leaf = 0; leaf <= last; ++leaf) {
      const LoopKind kind = consumer.loop_kind(leaf);
      const auto at = static_cast<size_t>(leaf);
      const bool at_once =
          kind == LoopKind::kParallel || kind == LoopKind::kBlock || kind == LoopKind::kThread;
      if (at_once && constant_of(consumer.leaf_extents[at]) != 1) own.push_back(consumer.leaf_vars[at]);
    }
    vars.insert(vars.begin(), own.begin(), own.end());
    stage = consumer.stage;
  }
  return vars;
}

/// Whether iterations of the loop over `loop_var` compute regions of the tensor without a common element, the
/// other variables of `same` being alike: in one dimension, or in memory, each begins behind the end of the
/// one before.
bool StageProgram::parts_lie_apart(const StageState& state, const Expr& loop_var,
                                   const std::set<const VarNode*>& same) {
  const auto* var = loop_var.as<VarNode>();
  const auto inside = [&](const VarNode* other) { return !other->is_symbol && !same.contains(other); };
  const auto moves_on = [&](const Expr& low, const Expr& extent) {
    const auto part = simplifier.range_over(low, inside);
    if (!part) return false;
    const Expr next = substitute(part->low, {{var, loop_var + Expr(1)}});
    return simplifier.prove(ge(next - part->low, extent + Expr(part->extent - 1)));
  };
  Expr first(0), last(0);
  for (size_t d = 0; d < state.op().axes.size(); ++d) {
    if (moves_on(state.low[d], state.extent[d])) return true;
    const Expr& whole = state.op().axes[d]->extent;
    first = first * whole + state.low[d];
    last = last * whole + state.extent[d] - Expr(1);
  }
  return moves_on(simplifier.simplify(first), last + Expr(1));
}

bool StageProgram::shared_by_iterations(const StageState& state) {
  if (!state.whole_buffer || !state.stage->attachment().is_at_loop()) return false;
  if (state.root != nullptr && state.group.size > 1) return true;  // whom no loop around it tells apart
  // Of two iterations that run at once, the outermost variable in which they differ.
  std::set<const VarNode*> same;
  for (const Expr& var : vars_at_once(state)) {
    same.insert(var.as<VarNode>());
    if (!parts_lie_apart(state, var, same)) return true;
  }
  return false;
}

void StageProgram::infer_region(StageState& state) {
  const OperationNode& op = state.op();
  state.low.assign(op.axes.size(), Expr(0));
  state.extent.clear();
  for (const IterVarPtr& axis : op.axes) state.extent.push_back(simplifier.simplify(axis->extent));
  if (!state.computes_part()) return;
  check_attached_output(state);
  std::set<const VarNode*> fixed = fixed_vars(state);
  bool first = true;
  for (const auto& reader : states) {
    if (!reader->body) {
      for (const Tensor& input : reader->op().extern_inputs) {
        internal_check(schedule.find(input.op().get()) != state.stage,
                       "{} is computed in part but the hand-written {} reads it", op.name, reader->op().name);
      }
      continue;
    }
    std::vector<std::pair<const VarNode*, Expr>> bindings(reader->axis_reach.begin(),
                                                          reader->axis_reach.end());
    bool reads = false;
    walk(reader->body, [&](const Expr& e) {
      const auto* read = e.as<ReadNode>();
      if (!read || schedule.find(read->op.get()) != state.stage) return;
      reads = true;
      std::vector<Expr> indices;
      for (const Expr& index : read->indices) {
        indices.push_back(simplifier.simplify(substitute(index, bindings)));
      }
      add_read(state, indices, fixed, first, reader->stage->mma() || state.stage->mma());
      first = false;
    });
    if (!reads) continue;
    if (reader->stage->tiles()) {  // its expression does not name the packed copies of rows that it reads
      state.low.back() = Expr(0);
      state.extent.back() = simplifier.simplify(op.axes.back()->extent);
    }
    if (state.stage->attachment().is_root()) continue;
    std::set<const VarNode*> around = enclosing_vars(*reader);
    for (const Expr& var : reader->leaf_vars) around.insert(var.as<VarNode>());
    internal_check(std::includes(around.begin(), around.end(), fixed.begin(), fixed.end()),
                   "{} is attached at {} of {}, which does not enclose its reader {}", op.name,
                   state.stage->attachment().axis()->name(), state.stage->attachment().consumer()->op()->name,
                   reader->op().name);
  }
  internal_check(!first, "{} is attached but nothing reads it", op.name);
  if (state.stage->tiles()) round_to_tiles(state);
  shift_inwards(state);
  end_rows(state);
}

/// Stage::shift_region, where a region of the extent that was found fits the axis.
void StageProgram::shift_inwards(StageState& state) {
  for (size_t d = 0; d < state.op().axes.size(); ++d) {
    if (std::ranges::find(state.stage->region().shifted, state.op().axes[d]) ==
        state.stage->region().shifted.end())
      continue;
    const Expr last = simplifier.simplify(state.op().axes[d]->extent - state.extent[d]);
    if (simplifier.prove(ge(last, Expr(0)))) state.low[d] = simplifier.simplify(min(state.low[d], last));
  }
}

/// Stage::read_rows_below, where a run tells how large the region is; a guard keeps to it in others.
void StageProgram::end_rows(StageState& state) {
  const Expr& end = state.stage->region().rows_end;
  if (!end) return;
  const size_t rows = state.extent.size() - 2;
  if (!constant_of(state.extent[rows])) state.extent[rows] = simplifier.simplify(end - state.low[rows]);
}

/// Whole tiles: the region of an axis becomes a multiple of the factor by which the axis is split first.
void StageProgram::round_to_tiles(StageState& state) const {
  for (size_t d = 0; d < state.op().axes.size(); ++d) {
    for (const AxisRelation& relation : state.stage->relations()) {
      if (relation.kind != AxisRelation::Kind::kSplit || relation.parent != state.op().axes[d]) continue;
      auto unit = constant_of(relation.factor), extent = constant_of(state.extent[d]);
      if (unit && extent) state.extent[d] = Expr((*extent + *unit - 1) / *unit * *unit);
    }
  }
}

}  // namespace gantry
