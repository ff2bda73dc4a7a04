// Loops of a stage from its region and its schedule: extents, values of the original axes, guards.
#include <algorithm>
#include <set>

#include "host/loops/loop_limits.h"
#include "host/loops/stage_program.h"
#include "host/support/error.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

/// Sums of multiples of the variable: what holds at both ends of its range holds between.
bool linear_in(const Expr& e, const VarNode* var) {
  bool mentions = false;
  walk(e, [&](const Expr& x) { mentions |= x.get() == var; });
  const auto* node = e.as<BinaryNode>();
  if (!mentions || e.get() == var) return true;
  if (!node) return false;
  bool linear = linear_in(node->a, var) && linear_in(node->b, var);
  if (node->op == BinaryOp::kMul) return linear && (constant_of(node->a) || constant_of(node->b));
  bool inequality = is_comparison(node->op) && node->op != BinaryOp::kEq && node->op != BinaryOp::kNe;
  return linear && (node->op == BinaryOp::kAdd || node->op == BinaryOp::kSub || inequality);
}

}  // namespace

int StageState::leaf_index(const IterVar* axis) const {
  for (size_t i = 0; i < stage->leaves().size(); ++i) {
    if (stage->leaves()[i].get() == axis) return static_cast<int>(i);
  }
  return -1;
}

LoopKind StageState::loop_kind(int leaf) const {
  return stage->kinds().of(stage->leaves()[static_cast<size_t>(leaf)].get());
}

bool StageState::is_reduce_leaf(int leaf) const {
  return stage->leaves()[static_cast<size_t>(leaf)]->kind == IterVar::Kind::kReduce;
}

int64_t StageState::threads_of(int begin, int end) const {
  int64_t threads = 1;
  for (int i = begin; i < end; ++i) {
    if (is_thread_leaf(i)) threads *= *constant_of(leaf_extents[static_cast<size_t>(i)]);
  }
  return threads;
}

void StageProgram::make_loops() {
  for (auto it = states.rbegin(); it != states.rend(); ++it) {  // readers first
    StageState& state = **it;
    if (state.op().kind != OperationNode::Kind::kCompute) continue;
    infer_region(state);
    make_loops_of(state);
  }
}

/// Of the stage's axes and of all that they are split or fused into.
StageProgram::AxisExprs StageProgram::extents_of(const StageState& state) {
  const Stage& stage = *state.stage;
  AxisExprs extents;
  for (size_t i = 0; i < stage.op()->axes.size(); ++i) extents[stage.op()->axes[i].get()] = state.extent[i];
  for (const IterVarPtr& axis : stage.op()->reduce_axes)
    extents[axis.get()] = simplifier.simplify(axis->extent);
  for (const AxisRelation& relation : stage.relations()) {
    if (relation.kind == AxisRelation::Kind::kFuse) {
      extents[relation.parent.get()] =
          simplifier.simplify(extents.at(relation.outer.get()) * extents.at(relation.inner.get()));
      continue;
    }
    Expr extent = extents.at(relation.parent.get());
    extents[relation.outer.get()] =
        simplifier.simplify(floordiv(extent + relation.factor - Expr(1), relation.factor));
    extents[relation.inner.get()] = relation.factor;
  }
  return extents;
}

/// Those that number tiles of which the last may begin inside of the one before, or are made of such a
/// number.
std::vector<int> StageProgram::overlapping_leaves(const Stage& stage, const AxisExprs& extents) {
  std::set<const IterVar*> numbers;
  for (const AxisRelation& relation : stage.relations()) {
    const IterVar *parent = relation.parent.get(), *outer = relation.outer.get(),
                  *inner = relation.inner.get();
    if (relation.kind == AxisRelation::Kind::kFuse) {
      if (numbers.contains(outer) || numbers.contains(inner)) numbers.insert(parent);
      continue;
    }
    const bool part = numbers.contains(parent);
    const auto size = constant_of(extents.at(parent)), factor = constant_of(relation.factor);
    const bool exact = !factor || (size && (*size % *factor == 0 || *size < *factor));
    if (part || (relation.tail != TailStrategy::kGuard && !exact)) numbers.insert(outer);
    if (part) numbers.insert(inner);
  }
  std::vector<int> leaves;
  for (size_t i = 0; i < stage.leaves().size(); ++i) {
    if (numbers.contains(stage.leaves()[i].get())) leaves.push_back(static_cast<int>(i));
  }
  return leaves;
}

/// Whether a loop over that leaf may be of the kind that the schedule has given it.
void StageProgram::check_leaf(const StageState& state, size_t i, const Expr& extent) {
  const Stage& stage = *state.stage;
  const IterVarPtr& leaf = stage.leaves()[i];
  const LoopKind kind = state.loop_kind(static_cast<int>(i));
  if (kind == LoopKind::kVectorized && !constant_of(extent)) {
    internal_error("{}: the vectorized loop {} has the extent {}, which is not constant", stage.op()->name,
                   leaf->name(), to_string(extent));
  }
  const std::string excess = excess_of(kind, constant_of(extent).value_or(0));
  internal_check(excess.empty(), "{}: the loop {} {}", stage.op()->name, leaf->name(), excess);
  internal_check(schedule.for_gpu || (kind != LoopKind::kBlock && kind != LoopKind::kThread),
                 "{}: {} is bound to blocks or threads, but kernel {} is for a CPU", stage.op()->name,
                 leaf->name(), kernel.name);
  if (kind == LoopKind::kThread && !constant_of(extent)) {
    internal_error("{}: {} is bound to threads, but its extent {} is not constant", stage.op()->name,
                   leaf->name(), to_string(extent));
  }
  internal_check(kind != LoopKind::kBlock || stage.attachment().is_root(),
                 "{}: {} is bound to blocks, but the stage is not at root", stage.op()->name, leaf->name());
  internal_check(kind != LoopKind::kParallel || (stage.attachment().is_root() && i == 0),
                 "{}: only the outermost loop of a stage at root may be parallel, {} is not",
                 stage.op()->name, leaf->name());
  check_rounds(stage, leaf, extent);
}

/// Rounds are all alike (host/codegen/parallel_loops.cpp): iterations after the last whole one would not run.
void StageProgram::check_rounds(const Stage& stage, const IterVarPtr& leaf, const Expr& extent) {
  const int64_t rounds = stage.kinds().rounds_of(leaf.get());
  if (rounds == 1) return;
  const auto count = constant_of(extent);
  const auto left = count ? *count % rounds : constant_of(simplifier.simplify(mod(extent, Expr(rounds))));
  internal_check(left == 0, "{}: the {} iterations of {} are no multiple of its {} rounds", stage.op()->name,
                 to_string(extent), leaf->name(), rounds);
}

void StageProgram::make_loops_of(StageState& state) {
  const Stage& stage = *state.stage;
  const AxisExprs extents = extents_of(state);
  AxisExprs offsets;
  for (size_t i = 0; i < stage.leaves().size(); ++i) {
    const IterVarPtr& leaf = stage.leaves()[i];
    Expr var = make_var(unique(leaf->name())), extent = extents.at(leaf.get());
    check_leaf(state, i, extent);
    simplifier.bind(var, Expr(0), extent);
    loop_vars[var.as<VarNode>()] = {&state, static_cast<int>(i)};
    state.leaf_vars.push_back(var);
    state.leaf_extents.push_back(extent);
    offsets[leaf.get()] = var;
  }
  state.overlapping = overlapping_leaves(stage, extents);
  AxisExprs reach = offsets;
  place_parents(state, extents, false, offsets);
  place_parents(state, extents, !schedule.for_gpu, reach);
  for (size_t i = 0; i < stage.op()->axes.size(); ++i) {
    const IterVarPtr& axis = stage.op()->axes[i];
    const auto* var = axis->var.as<VarNode>();
    state.axis_values[var] = simplifier.simplify(state.low[i] + offsets.at(axis.get()));
    state.axis_reach[var] = simplifier.simplify(state.low[i] + reach.at(axis.get()));
  }
  for (const IterVarPtr& axis : stage.op()->reduce_axes) {
    const auto* var = axis->var.as<VarNode>();
    state.axis_reach[var] = state.axis_values[var] = simplifier.simplify(axis->low + offsets.at(axis.get()));
  }
  make_guards(state, offsets, reach, extents);
}

/// From the leaves' offsets those of the axes that they were split or fused from. `within`: the inner part of
/// a split that is itself split, with a tail, stays within its extent as the guards have it; what follows in
/// the axis is the next part's.
void StageProgram::place_parents(const StageState& state, const AxisExprs& extents, bool within,
                             AxisExprs& offsets) {
  const Stage& stage = *state.stage;
  for (auto it = stage.relations().rbegin(); it != stage.relations().rend(); ++it) {
    if (it->kind == AxisRelation::Kind::kFuse) {
      Expr fused = offsets.at(it->parent.get()), inner = extents.at(it->inner.get());
      if (schedule.for_gpu && constant_of(extents.at(it->outer.get())) == 1) {
        // No remainder: a tail, which guards keep out, then goes beyond the end instead of starting again,
        // and the region that a block needs stays an interval.
        offsets[it->outer.get()] = Expr(0);
        offsets[it->inner.get()] = fused;
        continue;
      }
      offsets[it->outer.get()] = simplifier.simplify(floordiv(fused, inner));
      offsets[it->inner.get()] = simplifier.simplify(mod(fused, inner));
      continue;
    }
    Expr start = offsets.at(it->outer.get()) * it->factor;
    const Expr extent = extents.at(it->parent.get());
    auto size = constant_of(extent), factor = constant_of(it->factor);
    if (it->tail == TailStrategy::kShiftInwards) {
      internal_check(!size || !factor || *size >= *factor,
                     "{}: {} of extent {} cannot shift inwards by tiles of {}", stage.op()->name,
                     it->parent->name(), to_string(extent), to_string(it->factor));
      start = min(start, extent - it->factor);
    }
    if (it->tail == TailStrategy::kShiftOrGuard) start = max(Expr(0), min(start, extent - it->factor));
    Expr value = start + offsets.at(it->inner.get());
    const bool part = std::ranges::any_of(stage.relations(), [&](const AxisRelation& other) {
      return other.kind == AxisRelation::Kind::kSplit && other.inner == it->parent;
    });
    if (within && part && size && factor && *size % *factor != 0) value = min(value, Expr(*size - 1));
    offsets[it->parent.get()] = simplifier.simplify(value);
  }
}

void StageProgram::make_guards(StageState& state, const AxisExprs& offsets, const AxisExprs& reach,
                           const AxisExprs& extents) {
  // `within`: the same of what the other guards let through.
  auto require = [&](const Expr& claim, const Expr& within, StageGuard::Kind kind) {
    if (constant_of(simplifier.simplify(within)) == 1) return;
    Expr condition = uniform_over_lanes(state, simplifier.simplify(without_shift(claim)));
    if (constant_of(condition) == 1) return;
    StageGuard guard{condition, -1, false, kind};
    walk(condition, [&](const Expr& e) {
      const auto* var = e.as<VarNode>();
      auto it = var ? loop_vars.find(var) : loop_vars.end();
      if (it == loop_vars.end() || it->second.first != &state) return;
      guard.level = std::max(guard.level, it->second.second);
      guard.reduce |= state.is_reduce_leaf(it->second.second);
    });
    // Sums without terms begin at zero all the same: the condition is one of the reduction's loops.
    const int leaves = static_cast<int>(state.leaf_vars.size());
    int first = 0;
    while (first < leaves && !state.is_reduce_leaf(first)) ++first;
    if (kind == StageGuard::Kind::kTerm && first < leaves) guard.level = std::max(guard.level, first);
    state.guards.push_back(std::move(guard));
  };
  for (const AxisRelation& relation : state.stage->relations()) {
    if (relation.kind != AxisRelation::Kind::kSplit || relation.tail == TailStrategy::kShiftInwards) continue;
    const Expr& extent = extents.at(relation.parent.get());
    const Expr within = reach.at(relation.outer.get()) * relation.factor + reach.at(relation.inner.get());
    require(lt(offsets.at(relation.parent.get()), extent), lt(within, extent), StageGuard::Kind::kSplit);
  }
  const std::vector<std::pair<const VarNode*, Expr>> values(state.axis_values.begin(),
                                                            state.axis_values.end());
  for (const Expr& condition : state.stage->summation().zero_unless) {
    const Expr claim = substitute(condition, values);
    require(claim, claim, StageGuard::Kind::kTerm);
  }
  if (const Expr& end = state.stage->region().rows_end; end.get() && !state.stage->tiles()) {
    const VarNode* row = state.op().axes[state.op().axes.size() - 2]->var.as<VarNode>();
    require(lt(state.axis_values.at(row), end), lt(state.axis_reach.at(row), end), StageGuard::Kind::kUnread);
  }
  if (!state.computes_part()) return;
  for (size_t i = 0; i < state.op().axes.size(); ++i) {
    const IterVarPtr& axis = state.op().axes[i];
    const Expr& value = state.axis_values.at(axis->var.as<VarNode>());
    const Expr& within = state.axis_reach.at(axis->var.as<VarNode>());
    require(ge(value, Expr(0)), ge(within, Expr(0)), StageGuard::Kind::kDomain);
    require(lt(value, axis->extent), lt(within, axis->extent), StageGuard::Kind::kDomain);
  }
}

namespace {

/// A tile's start of TailStrategy::kShiftOrGuard, max(0, min(start, last)), where it is an addend of `e`.
const Expr* find_shift(const Expr& e) {
  const auto* node = e.as<BinaryNode>();
  if (!node) return nullptr;
  if (node->op == BinaryOp::kAdd) {
    const Expr* left = find_shift(node->a);
    return left ? left : find_shift(node->b);
  }
  const bool found = node->op == BinaryOp::kMax && constant_of(node->a) == 0 && node->b.as<BinaryNode>() &&
                     node->b.as<BinaryNode>()->op == BinaryOp::kMin;
  return found ? &e : nullptr;
}

Expr without_addend(const Expr& e, const Expr& addend) {
  if (e.same_as(addend)) return Expr(0);
  const auto* node = e.as<BinaryNode>();
  if (!node || node->op != BinaryOp::kAdd) return e;
  return without_addend(node->a, addend) + without_addend(node->b, addend);
}

}  // namespace

/// max(0, min(start, last)) + rest < end holds where rest < end does, if rest < end - last: either the tile
/// was shifted and is inside, or it starts at 0. So guards do not depend on the tile, and stand outside of
/// its loop. Where there is a tile the end is 1 or more, so that its first element needs none.
Expr StageProgram::without_shift(const Expr& claim) {
  const auto* less = claim.as<BinaryNode>();
  if (!less || less->op != BinaryOp::kLt) return claim;
  const Expr* shift = find_shift(less->a);
  if (!shift) return claim;
  const Expr rest = without_addend(less->a, *shift);
  const auto* last = shift->as<BinaryNode>()->b.as<BinaryNode>();
  for (const Expr& end : {last->a, last->b}) {
    if (simplifier.prove(lt(rest, less->b - end))) return lt(rest, max(less->b, Expr(1)));
  }
  return claim;
}

/// GPU: the condition without the variable of a vectorized leaf, where all its lanes agree (vectors of four
/// never straddle the end of a row of 4 n elements): predicated vectors are slow there.
Expr StageProgram::uniform_over_lanes(const StageState& state, const Expr& condition) {
  if (!schedule.for_gpu) return condition;
  for (size_t i = 0; i < state.leaf_vars.size(); ++i) {
    if (state.loop_kind(static_cast<int>(i)) != LoopKind::kVectorized) continue;
    const auto* lane = state.leaf_vars[i].as<VarNode>();
    if (!linear_in(condition, lane)) continue;
    Expr last = state.leaf_extents[i] - Expr(1);
    Expr at_first = simplifier.simplify(substitute(condition, {{lane, Expr(0)}}));
    Expr at_last = simplifier.simplify(substitute(condition, {{lane, last}}));
    if (structurally_equal(at_first, at_last)) return at_first;
  }
  return condition;
}

}  // namespace gantry
