// Statements of a stage: loops, guards, the producers attached inside, initialisation and update of
// reductions.
#include "host/loops/lower_state.h"
#include "host/support/error.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

/// Accumulators of a reduction stay in a local buffer up to this many bytes.
constexpr int64_t kAccumulatorBytes = 16 << 10;

}  // namespace

/// Reads become loads of flat buffers.
class ReadLowering : public ExprMutator {
 public:
  explicit ReadLowering(Lowering& owner) : owner_(owner) {}

 protected:
  Expr mutate_read(const ReadNode* node, const Expr& self) override {
    Expr read = ExprMutator::mutate_read(node, self);
    const std::vector<Expr>& indices = read.as<ReadNode>()->indices;
    StageState* state = owner_.state_of(node->op.get());
    bool region = state && state->op().kind == OperationNode::Kind::kCompute && !state->whole_buffer;
    const std::vector<Expr>& shape =
        region ? state->extent : node->op->result_shapes[static_cast<size_t>(node->result)];
    Expr flat(0);
    for (size_t i = 0; i < indices.size(); ++i) {
      flat = flat * shape[i] + (region ? indices[i] - state->low[i] : indices[i]);
    }
    return load(owner_.buffer_of(node->op.get(), node->result), flat);
  }

 private:
  Lowering& owner_;
};

Expr Lowering::to_loads(const StageState& state, const Expr& e) {
  std::vector<std::pair<const VarNode*, Expr>> bindings(state.axis_values.begin(), state.axis_values.end());
  return simplifier_.simplify(ReadLowering(*this).mutate(substitute(e, bindings)));
}

Expr Lowering::store_index(const StageState& state) {
  Expr flat(0);
  for (size_t i = 0; i < state.op().axes.size(); ++i) {
    const IterVarPtr& axis = state.op().axes[i];
    const Expr& value = state.axis_values.at(axis->var.as<VarNode>());
    flat = state.whole_buffer ? flat * axis->extent + value : flat * state.extent[i] + (value - state.low[i]);
  }
  return simplifier_.simplify(flat);
}

Stmt Lowering::guarded(const StageState& state, int level, bool reduce_too, Stmt inner) {
  Expr condition;
  for (const StageGuard& guard : state.guards) {
    if (guard.level != level || (guard.reduce && !reduce_too)) continue;
    condition = condition ? condition && guard.condition : guard.condition;
  }
  return condition ? if_stmt(condition, std::move(inner)) : inner;
}

Stmt Lowering::with_attached(StageState& state, int leaf, Stmt inner) {
  std::vector<Stmt> statements;
  std::vector<Buffer> locals;
  for (StageState* producer : state.attached) {
    if (state.leaf_index(producer->stage->attach_axis.get()) != leaf) continue;
    statements.push_back(build_stage(*producer));
    if (producer->buffer->scope == BufferScope::kLocal) locals.push_back(producer->buffer);
  }
  if (statements.empty()) return inner;
  statements.push_back(std::move(inner));
  Stmt body = block(std::move(statements));
  for (auto it = locals.rbegin(); it != locals.rend(); ++it) body = allocate(*it, body);
  return body;
}

/// Loops of `leaves` from position `at` on, around `innermost`. `whole`: with attached stages and guards of
/// reduction axes, as opposed to the loops that only initialise or write back.
Stmt Lowering::build_loops(StageState& state, const std::vector<int>& leaves, size_t at, bool whole,
                           const Stmt& innermost) {
  if (at == leaves.size()) return innermost;
  int leaf = leaves[at];
  Stmt body = build_loops(state, leaves, at + 1, whole, innermost);
  if (whole) body = with_attached(state, leaf, body);
  body = guarded(state, leaf, whole, body);
  auto i = static_cast<size_t>(leaf);
  LoopKind kind = state.loop_kind(leaf);
  if (kind == LoopKind::kThread) return body;  // the launch's threads run it, see with_threads()
  if (kind == LoopKind::kUnrolled && !constant_of(state.leaf_extents[i])) kind = LoopKind::kSerial;
  if (kind == LoopKind::kBlock && leaf == last_block_leaf(state)) body = with_threads(state, body);
  return for_loop(state.leaf_vars[i], Expr(0), state.leaf_extents[i], kind, body);
}

Stmt Lowering::build_stage(StageState& state) {
  int count = static_cast<int>(state.leaf_vars.size()), first_reduce = count;
  for (int i = count - 1; i >= 0; --i) {
    if (state.is_reduce_leaf(i)) first_reduce = i;
  }
  Stmt innermost;
  if (state.body.as<ReduceNode>()) {
    innermost = build_reduction(state, first_reduce);
  } else {
    innermost = store(state.buffer, store_index(state), to_loads(state, state.body));
  }
  std::vector<int> outer;
  for (int i = 0; i < first_reduce; ++i) outer.push_back(i);
  return guarded(state, -1, true, build_loops(state, outer, 0, true, innermost));
}

/// acc = identity; acc = combine(acc, value) in all inner loops; result = acc. A vectorized reduction axis
/// gives each lane an accumulator of its own.
Stmt Lowering::build_reduction(StageState& state, int first_reduce) {
  const auto* root = state.body.as<ReduceNode>();
  int count = static_cast<int>(state.leaf_vars.size());
  std::vector<int> inner, inner_data;
  int64_t lanes = 1, points = 1;
  Expr lane_var;
  bool constant = true;
  for (int i = first_reduce; i < count; ++i) {
    inner.push_back(i);
    auto at = static_cast<size_t>(i);
    auto extent = constant_of(state.leaf_extents[at]);
    if (!state.is_reduce_leaf(i)) {
      inner_data.push_back(i);
      constant &= extent.has_value();
      points *= extent.value_or(1);
    } else if (state.loop_kind(i) == LoopKind::kVectorized) {
      internal_check(!lane_var, "{}: two vectorized reduction loops", state.op().name);
      lane_var = state.leaf_vars[at];
      lanes = *extent;
    }
  }
  internal_check(!lane_var.get() || constant,
                 "{}: a vectorized reduction around loops of extents that are not constant", state.op().name);
  int64_t bytes = points * lanes * byte_width(state.buffer->dtype);
  bool separate = lane_var.get() ||
                  (state.buffer->scope != BufferScope::kLocal && constant && bytes <= kAccumulatorBytes);

  Buffer accumulator = state.buffer;
  Expr index = store_index(state);
  if (separate) {
    accumulator =
        std::make_shared<BufferNode>(BufferNode{unique(state.op().name + ".acc"), state.buffer->dtype,
                                                Expr(points * lanes), BufferScope::kLocal, 64});
    index = Expr(0);
    for (int leaf : inner_data) {
      auto at = static_cast<size_t>(leaf);
      index = index * state.leaf_extents[at] + state.leaf_vars[at];
    }
    index = index * Expr(lanes);
  }
  Expr lane_index = lane_var ? index + lane_var : index;
  Expr identity = identity_of(root->reduce, state.buffer->dtype);
  Stmt initial = store(accumulator, lane_index, identity);
  if (lane_var) initial = for_loop(lane_var, Expr(0), Expr(lanes), LoopKind::kVectorized, initial);

  Expr value = to_loads(state, root->value);
  Stmt update = store(accumulator, lane_index, combine(root->reduce, load(accumulator, lane_index), value));
  if (root->condition) update = if_stmt(to_loads(state, root->condition), update);

  Stmt init_nest = build_loops(state, inner_data, 0, false, initial);
  Stmt update_nest = build_loops(state, inner, 0, true, update);
  if (!separate) return block({init_nest, update_nest});
  std::vector<Expr> partial;
  for (int64_t lane = 0; lane < lanes; ++lane) partial.push_back(load(accumulator, index + Expr(lane)));
  while (partial.size() > 1) {  // pairwise, as a tree
    std::vector<Expr> next;
    for (size_t i = 0; i + 1 < partial.size(); i += 2)
      next.push_back(combine(root->reduce, partial[i], partial[i + 1]));
    if (partial.size() % 2) next.push_back(partial.back());
    partial = std::move(next);
  }
  Stmt finish = build_loops(state, inner_data, 0, false, store(state.buffer, store_index(state), partial[0]));
  return allocate(accumulator, block({init_nest, update_nest, finish}));
}

}  // namespace gantry
