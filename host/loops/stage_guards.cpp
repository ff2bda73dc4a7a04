// Which conditions stand where.
//
// On a CPU a guard stands directly inside the innermost loop that it mentions. Inside a launch, code with
// barriers runs for all threads, so that guards move inwards past it; and what only reads tiles of shared
// memory, which are filled with zeros beyond the tensor's end, needs few guards at all.
#include "host/loops/nest_builder.h"
#include "host/tensor/fold.h"

namespace gantry {

namespace {

bool reduces_over_threads(const StageState& state) {
  for (size_t i = 0; i < state.leaf_vars.size(); ++i) {
    auto leaf = static_cast<int>(i);
    if (state.is_thread_leaf(leaf) && state.is_reduce_leaf(leaf)) return true;
  }
  return false;
}

int first_reduce_leaf(const StageState& state) {
  int leaf = 0;
  while (!state.is_reduce_leaf(leaf)) ++leaf;
  return leaf;
}

}  // namespace

/// Do the threads of the block meet in this stage's own nest?
bool NestBuilder::meets(const StageState& state) const {
  return state.root && (state.stage->mma() || meeting_leaf(state) >= 0);
}

/// The innermost leaf in which threads of the block meet (at the latest); -1: nowhere. Those that reduce
/// together meet after their first reduction loop, in front of which all its guards are then as well.
int NestBuilder::meeting_leaf(const StageState& state) const {
  if (!state.root) return -1;
  int leaf = -1;
  for (const StageState* producer : state.attached) {
    if (producer->is_cooperative() || meets(*producer))
      leaf = std::max(leaf, state.leaf_index(producer->stage->attachment().axis().get()));
  }
  if (reduces_over_threads(state)) leaf = std::max(leaf, first_reduce_leaf(state));
  return leaf;
}

/// Every element that the stage reads is in shared memory, whatever the values of its loops.
bool NestBuilder::stays_inside(const StageState& state) {
  std::vector<std::pair<const VarNode*, Expr>> bindings(state.axis_values.begin(), state.axis_values.end());
  bool inside = true;
  walk(state.body, [&](const Expr& e) {
    inside = inside && e->kind != ExprKind::kLoad;
    const auto* read = e.as<ReadNode>();
    if (!read || !inside) return;
    StageState* producer = program_.state_of(read->op.get());
    if (!producer || producer->whole_buffer || !producer->buffer) {
      inside = false;
      return;
    }
    // Tiles are filled with zeros; a copy in registers and sums in shared memory have all their elements if
    // they are computed without guards.
    const bool reduction = producer->body.as<ReduceNode>() != nullptr;
    bool total = producer->is_cooperative() && !reduction;
    if (!total && (producer->is_cooperative() || (producer->scope == StorageScope::kLocal && !reduction))) {
      total = true;
      for (const StageGuard& guard : producer->guards)
        total = total && (guard.reduce || !needs(*producer, guard, Purpose::kCompute, false));
    }
    for (size_t d = 0; d < read->indices.size() && total; ++d) {
      Expr offset = simplifier_.simplify(substitute(read->indices[d], bindings) - producer->low[d]);
      total = simplifier_.prove(ge(offset, Expr(0))) && simplifier_.prove(lt(offset, producer->extent[d]));
    }
    inside = total;
  });
  return inside;
}

/// `e`, over the stage's loop variables, is zero where the condition fails: products whose factors all are
/// reads beyond the end of a tensor in shared memory (zero times infinity would not be zero).
bool NestBuilder::vanishes(const StageState& state, const Expr& e, const Expr& condition) {
  if (const auto* node = e.as<BinaryNode>(); node && node->op == BinaryOp::kMul)
    return vanishes(state, node->a, condition) && vanishes(state, node->b, condition);
  if (const auto* node = e.as<CastNode>()) return vanishes(state, node->a, condition);
  if (const auto* node = e.as<CallNode>(); node && node->fn == MathFn::kRoundTf32)
    return vanishes(state, node->args[0], condition);
  const auto* read = e.as<ReadNode>();
  const StageState* producer = read ? program_.state_of(read->op.get()) : nullptr;
  if (!producer || producer->body.as<ReduceNode>()) return false;
  std::vector<std::pair<const VarNode*, Expr>> values;
  for (size_t d = 0; d < read->indices.size(); ++d)
    values.emplace_back(producer->op().axes[d]->var.as<VarNode>(), read->indices[d]);
  if (producer->scope == StorageScope::kLocal)
    return vanishes(state, substitute(producer->body, values), condition);
  const auto* claim = condition.as<BinaryNode>();
  if (!producer->is_cooperative() || !claim || claim->op != BinaryOp::kLt) return false;
  size_t known = simplifier_.facts();
  simplifier_.assume(ge(claim->a, claim->b));
  bool beyond = false;
  for (size_t d = 0; d < read->indices.size(); ++d)
    beyond = beyond || simplifier_.prove(ge(read->indices[d], producer->op().axes[d]->extent));
  simplifier_.forget(known);
  return beyond;
}

bool NestBuilder::needs(const StageState& state, const StageGuard& guard, Purpose purpose, bool separate) {
  bool whole = purpose == Purpose::kCompute;
  if (guard.kind == StageGuard::Kind::kTerm) return whole;
  if (guard.reduce && !whole) return false;
  if (!state.root) return true;
  bool local = state.buffer->scope == BufferScope::kLocal, region = !state.whole_buffer;
  bool reduction = state.body.as<ReduceNode>() != nullptr;
  if (purpose == Purpose::kInitialize && separate) return false;
  if (!whole) {
    if (guard.kind == StageGuard::Kind::kDomain) return !region;
    return guard.kind == StageGuard::Kind::kSplit || !local;
  }
  // Elements of shared tiles choose between a value and zero instead.
  if (guard.kind == StageGuard::Kind::kDomain && state.is_cooperative() && !reduction) return false;
  if (guard.kind == StageGuard::Kind::kThread) return true;
  if (guard.kind == StageGuard::Kind::kSplit && !guard.reduce && !separate) return true;
  if (!region && !separate) return true;
  if (!stays_inside(state)) return true;
  if (!guard.reduce) return false;
  const auto* root = state.body.as<ReduceNode>();
  if (root->reduce != ReduceKind::kSum || root->condition.get()) return true;
  std::vector<std::pair<const VarNode*, Expr>> bindings(state.axis_values.begin(), state.axis_values.end());
  return !vanishes(state, substitute(root->value, bindings), guard.condition);
}

/// `inner` under the guards of leaves first to last, as far as that part of the stage needs them.
Stmt NestBuilder::guarded(const StageState& state, int first, int last, Purpose purpose, bool separate,
                       Stmt inner) {
  Expr condition;
  for (const StageGuard& guard : state.guards) {
    if (guard.level < first || guard.level > last || !needs(state, guard, purpose, separate)) continue;
    condition = condition ? condition && guard.condition : guard.condition;
  }
  return condition ? if_stmt(condition, std::move(inner)) : inner;
}

}  // namespace gantry
