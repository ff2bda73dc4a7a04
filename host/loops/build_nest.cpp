// Statements of a stage: loops, guards, the producers attached inside.
#include "host/loops/loop_limits.h"
#include "host/loops/nest_builder.h"
#include "host/support/divide.h"
#include "host/support/error.h"
#include "host/tensor/fold.h"

namespace gantry {

/// Reads become loads of flat buffers.
class ReadLowering : public ExprMutator {
 public:
  explicit ReadLowering(NestBuilder& owner) : owner_(owner) {}

 protected:
  Expr mutate_read(const ReadNode* node, const Expr& self) override {
    Expr read = ExprMutator::mutate_read(node, self);
    const std::vector<Expr>& indices = read.as<ReadNode>()->indices;
    StageState* state = owner_.program_.state_of(node->op.get());
    if (state && state->stage->mma()) return owner_.read_fragment(*state, indices);
    bool region = state && state->op().kind == OperationNode::Kind::kCompute && !state->whole_buffer;
    const std::vector<Expr>& shape =
        region ? state->storage : node->op->result_shapes[static_cast<size_t>(node->result)];
    Expr flat(0);
    for (size_t i = 0; i < indices.size(); ++i) {
      flat = flat * shape[i] + (region ? indices[i] - state->low[i] : indices[i]);
    }
    if (region && takes_turns(*state)) flat = flat + owner_.turn_offset(*state);
    return load(owner_.program_.buffer_of(node->op.get(), node->result), flat);
  }

 private:
  NestBuilder& owner_;
};

Expr NestBuilder::to_loads(const StageState& state, const Expr& e) {
  std::vector<std::pair<const VarNode*, Expr>> bindings(state.axis_values.begin(), state.axis_values.end());
  return simplifier_.simplify(ReadLowering(*this).mutate(substitute(e, bindings)));
}

Expr NestBuilder::store_index(const StageState& state) {
  Expr flat(0);
  for (size_t i = 0; i < state.op().axes.size(); ++i) {
    const IterVarPtr& axis = state.op().axes[i];
    const Expr& value = state.axis_values.at(axis->var.as<VarNode>());
    flat =
        state.whole_buffer ? flat * axis->extent + value : flat * state.storage[i] + (value - state.low[i]);
  }
  if (!state.whole_buffer && takes_turns(state)) flat = flat + turn_offset(state);
  return simplifier_.simplify(flat);
}

/// The hints of one Stage::fetch_next in an iteration of `leaf`; none unless that is the innermost serial
/// loop.
std::vector<Stmt> NestBuilder::fetches_of(const StageState& state, int leaf, const FetchAhead& fetch) {
  const int count = static_cast<int>(state.leaf_vars.size());
  auto serial = [&](int i) { return state.loop_kind(i) == LoopKind::kSerial; };
  if (!serial(leaf) || leaf <= state.leaf_index(fetch.axis.get())) return {};
  for (int i = leaf + 1; i < count; ++i) {
    if (serial(i)) return {};
  }
  Expr read;
  walk(state.body, [&](const Expr& e) {
    const auto* node = e.as<ReadNode>();
    if (node && node->op == fetch.source) read = e;
  });
  internal_check(static_cast<bool>(read), "{}: fetches ahead of {}, which it does not read", state.op().name,
                 fetch.source->name);
  std::vector<std::pair<const VarNode*, Expr>> start;
  Expr iteration(0);
  int64_t iterations = 1;
  for (int i = state.leaf_index(fetch.axis.get()) + 1; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    start.emplace_back(state.leaf_vars[at].as<VarNode>(), Expr(0));
    auto extent = constant_of(state.leaf_extents[at]);
    if (!serial(i)) continue;
    if (!extent) return {};
    iteration = iteration * state.leaf_extents[at] + state.leaf_vars[at];
    iterations *= *extent;
  }
  const Expr loaded = to_loads(state, read);
  const auto* element = loaded.as<LoadNode>();
  const int64_t step = (fetch.elements + iterations - 1) / iterations;
  const int64_t line = 64 / byte_width(element->buffer->dtype);
  const int64_t lines = ceil_div(step, line);
  internal_check(
      lines <= kMaxUnrolled,
      "{}: to fetch {} elements of {} in {} iterations takes {} hints each; at most {} are possible",
      state.op().name, fetch.elements, fetch.source->name, iterations, lines, kMaxUnrolled);
  Expr first = substitute(element->index, start) + Expr(fetch.elements) + iteration * Expr(step);
  std::vector<Stmt> hints;
  for (int64_t i = 0; i < step; i += line)
    hints.push_back(prefetch(element->buffer, simplifier_.simplify(first + Expr(i))));
  return hints;
}

/// All of them in front of the loop's body.
Stmt NestBuilder::with_fetches(const StageState& state, int leaf, Stmt body) {
  std::vector<Stmt> statements;
  for (const FetchAhead& fetch : state.stage->prefetches().ahead) {
    std::vector<Stmt> hints = fetches_of(state, leaf, fetch);
    statements.insert(statements.end(), hints.begin(), hints.end());
  }
  statements.push_back(std::move(body));
  return block(std::move(statements));
}

/// Hints of Stage::prefetch in front of a leaf's body.
Stmt NestBuilder::with_prefetches(const StageState& state, int leaf, const Stmt& inner) {
  std::vector<Stmt> statements;
  for (const PrefetchHint& hint : state.stage->prefetches().hints) {
    if (state.leaf_index(hint.at.get()) != leaf) continue;
    std::vector<std::pair<const VarNode*, Expr>> first;
    for (size_t i = static_cast<size_t>(leaf) + 1; i < state.leaf_vars.size(); ++i)
      first.emplace_back(state.leaf_vars[i].as<VarNode>(), Expr(0));
    Expr element = substitute(to_loads(state, hint.tensor(hint.indices)), first);
    const auto* wanted = element.as<LoadNode>();
    statements.push_back(prefetch(wanted->buffer, simplifier_.simplify(wanted->index)));
  }
  statements.push_back(inner);
  return block(std::move(statements));
}

/// Loops of `leaves` from position `at` on, around `innermost`. Those that compute contain attached stages
/// and the guards of reduction axes, as opposed to those that only initialise or write back.
Stmt NestBuilder::build_loops(StageState& state, const std::vector<int>& leaves, size_t at, Purpose purpose,
                           bool separate, const Stmt& innermost) {
  if (at == leaves.size()) return innermost;
  int leaf = leaves[at];
  Stmt body = build_loops(state, leaves, at + 1, purpose, separate, innermost);
  if (purpose == Purpose::kCompute) {
    body = with_fetches(state, leaf, body);
    // Guards do not reach around barriers: they stand inside the last leaf that has some.
    int meeting = meeting_leaf(state);
    if (leaf == meeting) body = guarded(state, -1, leaf, purpose, separate, body);
    body = with_attached(state, leaf, body);
    if (leaf > meeting) body = guarded(state, leaf, leaf, purpose, separate, body);
  } else {
    body = guarded(state, leaf, leaf, purpose, separate, body);
  }
  auto i = static_cast<size_t>(leaf);
  if (purpose == Purpose::kCompute) body = with_prefetches(state, leaf, body);
  LoopKind kind = state.loop_kind(leaf);
  if (kind == LoopKind::kUnrolled && !constant_of(state.leaf_extents[i])) kind = LoopKind::kSerial;
  if (kind == LoopKind::kBlock && leaf == last_block_leaf(state)) body = with_threads(state, body);
  if (purpose == Purpose::kCompute && !tiles_in_turn(state, leaf).empty())
    return build_pipelined_loop(state, leaf, kind, body);
  if (kind == LoopKind::kThread) return body;  // run by the launch's threads
  const int64_t rounds = state.stage->kinds().rounds_of(state.stage->leaves()[i].get());
  return for_loop(state.leaf_vars[i], Expr(0), state.leaf_extents[i], kind, body, rounds);
}

Stmt NestBuilder::build_elements(StageState& state) {
  Expr value = to_loads(state, state.body);
  if (state.is_cooperative()) {  // zeros where the tensor has no element
    Expr inside;
    for (const StageGuard& guard : state.guards) {
      if (guard.kind == StageGuard::Kind::kDomain)
        inside = inside ? inside && guard.condition : guard.condition;
    }
    if (inside) value = if_then_else(inside, value, const_of(value.type().dtype, 0));
  }
  return store(state.buffer, store_index(state), value);
}

Stmt NestBuilder::build_stage(StageState& state) {
  int count = static_cast<int>(state.leaf_vars.size()), first_reduce = count;
  for (int i = count - 1; i >= 0; --i) {
    if (state.is_reduce_leaf(i)) first_reduce = i;
  }
  bool reduction = state.body.as<ReduceNode>() != nullptr;
  internal_check(
      (!state.stage->mma() && !state.stage->tiles()) || !repeats_sums(state, first_reduce),
      "{}: tiles that are shifted inwards overlap, and instructions would sum what they share twice",
      state.op().name);
  Stmt innermost = state.stage->mma()     ? build_mma(state, first_reduce)
                   : state.stage->tiles() ? build_tiles(state, first_reduce)
                   : reduction            ? build_reduction(state, first_reduce)
                                          : build_elements(state);
  std::vector<int> outer;
  for (int i = 0; i < first_reduce; ++i) outer.push_back(i);
  Stmt nest = build_loops(state, outer, 0, Purpose::kCompute, false, innermost);
  if (state.stage->tiles()) nest = block({configure_tiles(state), nest, tile_release()});
  if (meeting_leaf(state) >= 0) return nest;
  return guarded(state, -1, -1, Purpose::kCompute, false, nest);
}

}  // namespace gantry
