// Initialisation, update and result of reductions.
#include <algorithm>

#include "host/loops/nest_builder.h"
#include "host/support/error.h"
#include "host/tensor/fold.h"
#include "host/tensor/padding.h"

namespace gantry {
namespace {

/// Accumulators of a reduction stay in a local buffer up to this many bytes.
constexpr int64_t kAccumulatorBytes = 16 << 10;

}  // namespace

/// Whether sums that are added up in the result would get terms twice: tiles that overlap are numbered inside
/// the reduction, or run at once. One after another, around it, each tile begins its sums anew.
bool NestBuilder::repeats_sums(const StageState& state, int first_reduce) {
  return std::ranges::any_of(state.overlapping, [&](int leaf) {
    const LoopKind kind = state.loop_kind(leaf);
    return leaf >= first_reduce || kind == LoopKind::kParallel || kind == LoopKind::kBlock ||
           kind == LoopKind::kThread;
  });
}

Reduction NestBuilder::plan_reduction(StageState& state, int first_reduce) {
  Reduction plan;
  plan.first = first_reduce;
  for (int i = first_reduce; i < static_cast<int>(state.leaf_vars.size()); ++i) {
    plan.inner.push_back(i);
    auto at = static_cast<size_t>(i);
    auto extent = constant_of(state.leaf_extents[at]);
    if (!state.is_reduce_leaf(i)) {
      plan.inner_data.push_back(i);
      if (state.is_thread_leaf(i)) continue;  // each thread has accumulators of its own
      plan.constant &= extent.has_value();
      plan.points *= extent.value_or(1);
    } else if (state.is_thread_leaf(i)) {
      plan.threads *= *extent;
    } else if (state.loop_kind(i) == LoopKind::kVectorized) {
      internal_check(!plan.lane_var, "{}: two vectorized reduction loops", state.op().name);
      plan.lane_var = state.leaf_vars[at];
      plan.lanes = *extent;
    }
  }
  bool own = plan.lane_var.get() || plan.threads > 1;
  internal_check(!own || plan.constant,
                 "{}: a vectorized or thread-bound reduction around loops of extents that are not constant",
                 state.op().name);
  int64_t bytes = plan.points * plan.lanes * byte_width(state.buffer->dtype);
  internal_check(
      !own || bytes <= kMaxStackBytes,
      "{}: {} sums of {} lanes each are more than a thread's stack holds: split the loops inside of "
      "the reduction",
      state.op().name, plan.points, plan.lanes);
  const bool repeats = repeats_sums(state, first_reduce), fits = plan.constant && bytes <= kAccumulatorBytes;
  plan.separate = own || (fits && (repeats || state.buffer->scope != BufferScope::kLocal));
  internal_check(plan.separate || !repeats,
                 "{}: tiles that are shifted inwards overlap, what they share would be summed twice, and "
                 "accumulators of their own are no constant number of at most {} KiB: split with the tail "
                 "'guard', or put the reduction inside of the tiles",
                 state.op().name, kAccumulatorBytes >> 10);
  internal_check(plan.separate || !program_.shared_by_iterations(state),
                 "{} is an output of which {} would add up the same sums at once, and these are no constant "
                 "number of at most {} KiB: compute it at root",
                 state.op().name, state.root ? "blocks or threads" : "iterations of a parallel loop",
                 kAccumulatorBytes >> 10);
  plan.accumulator = state.buffer;
  plan.index = store_index(state);
  if (!plan.separate) return plan;
  DType dtype = state.buffer->dtype;
  // Threads combine half-precision values in f32: instructions that exchange registers do so too.
  if (plan.threads > 1 && (dtype == DType::kF16 || dtype == DType::kBF16)) dtype = DType::kF32;
  plan.accumulator = std::make_shared<BufferNode>(BufferNode{
      unique_(state.op().name + ".acc"), dtype, Expr(plan.points * plan.lanes), BufferScope::kLocal, 64});
  plan.point = Expr(0);
  for (int leaf : plan.inner_data) {
    if (state.is_thread_leaf(leaf)) continue;
    auto at = static_cast<size_t>(leaf);
    plan.point = plan.point * state.leaf_extents[at] + state.leaf_vars[at];
  }
  plan.index = plan.point * Expr(plan.lanes);
  return plan;
}

/// Where other data loops stand around the innermost loops of the reduction (it is cut into parts), the
/// position in plan.inner of the first of these, which have only a tile of constant size inside; else 0.
size_t NestBuilder::tile_of_cut_reduction(const StageState& state, const Reduction& plan) const {
  if (state.root || plan.lane_var.get()) return 0;
  size_t position = plan.inner.size();
  while (position > 0 && state.loop_kind(plan.inner[position - 1]) != LoopKind::kSerial) --position;
  if (position < 2 || !state.is_reduce_leaf(plan.inner[position - 1])) return 0;
  size_t first = position - 1;
  while (first > 0 && state.is_reduce_leaf(plan.inner[first - 1])) --first;
  for (size_t i = position; i < plan.inner.size(); ++i) {
    const int leaf = plan.inner[i];
    if (state.is_reduce_leaf(leaf) || !constant_of(state.leaf_extents[static_cast<size_t>(leaf)])) return 0;
  }
  const bool cut = std::any_of(plan.inner.begin(), plan.inner.begin() + static_cast<std::ptrdiff_t>(first),
                               [&](int leaf) { return !state.is_reduce_leaf(leaf); });
  const bool guarded_inside =
      std::any_of(state.guards.begin(), state.guards.end(),
                  [&](const StageGuard& guard) { return !guard.reduce && guard.level > plan.inner[first]; });
  return cut && !guarded_inside ? first : 0;
}

/// The position in plan.inner of the leaves that are summed by themselves: as the schedule says, or as it cuts
/// the reduction. 0: none are.
size_t NestBuilder::innermost_part(const StageState& state, const Reduction& plan) const {
  const IterVarPtr& axis = state.stage->summation().part_axis;
  if (!axis) return tile_of_cut_reduction(state, plan);
  const auto at = std::find(plan.inner.begin(), plan.inner.end(), state.leaf_index(axis.get()));
  const auto tile =
      std::find_if(at, plan.inner.end(), [&](int leaf) { return !state.is_reduce_leaf(leaf); });
  const bool fixed = std::all_of(tile, plan.inner.end(), [&](int leaf) {
    return !state.is_reduce_leaf(leaf) && constant_of(state.leaf_extents[static_cast<size_t>(leaf)]);
  });
  internal_check(at != plan.inner.end() && fixed && !state.root && !plan.lane_var.get(),
                 "{}: the leaves inside a part of its sum are not a tile", state.op().name);
  return static_cast<size_t>(at - plan.inner.begin());
}

/// Accumulators of the data leaves `tile`, which become registers; `point`: the index of one.
Buffer NestBuilder::tile_sums(const StageState& state, const std::vector<int>& tile, DType dtype, Expr& point) {
  point = Expr(0);
  Expr points(1);
  for (int leaf : tile) {
    const auto at = static_cast<size_t>(leaf);
    point = point * state.leaf_extents[at] + state.leaf_vars[at];
    points = points * state.leaf_extents[at];
  }
  return std::make_shared<BufferNode>(BufferNode{unique_(state.op().name + ".acc"), dtype,
                                                 simplifier_.simplify(points), BufferScope::kLocal, 64});
}

/// What a part adds to the tile's sums is made in accumulators of its own, which are registers. Sums of parts
/// are also more exact than one long chain: each addition rounds a smaller number.
Stmt NestBuilder::build_cut_update(StageState& state, const Reduction& plan, size_t innermost,
                                const Expr& value) {
  const auto* root = state.body.as<ReduceNode>();
  const auto split = plan.inner.begin() + static_cast<std::ptrdiff_t>(innermost);
  const auto first_data =
      std::find_if(split, plan.inner.end(), [&](int leaf) { return !state.is_reduce_leaf(leaf); });
  const std::vector<int> outer(plan.inner.begin(), split), inner(split, plan.inner.end()),
      tile(first_data, plan.inner.end());
  Expr point;
  Buffer sums = tile_sums(state, tile, state.buffer->dtype, point);
  Stmt begin = store(sums, point, identity_of(root->reduce, sums->dtype));
  Stmt update = store(sums, point, combine(root->reduce, load(sums, point), value));
  if (root->condition) update = if_stmt(to_loads(state, root->condition), update);
  Stmt end = store(plan.accumulator, plan.index,
                   combine(root->reduce, load(plan.accumulator, plan.index), load(sums, point)));
  Stmt nest = block({build_loops(state, tile, 0, Purpose::kInitialize, false, begin),
                     build_loops(state, inner, 0, Purpose::kCompute, false, update),
                     build_loops(state, tile, 0, Purpose::kStore, false, end)});
  return build_loops(state, outer, 0, Purpose::kCompute, false, allocate(sums, nest));
}

namespace {

/// a and b of cast(a) * cast(b), both f16; nothing if the value has another form.
std::optional<std::pair<Expr, Expr>> half_factors(const Expr& value) {
  const auto* product = value.as<BinaryNode>();
  if (!product || product->op != BinaryOp::kMul) return std::nullopt;
  const auto *a = product->a.as<CastNode>(), *b = product->b.as<CastNode>();
  if (!a || !b || a->a.type().dtype != DType::kF16 || b->a.type().dtype != DType::kF16) return std::nullopt;
  return std::pair(a->a, b->a);
}

}  // namespace

/// See Stage::sum_in_half.
Stmt NestBuilder::build_half_update(StageState& state, const Reduction& plan, const Expr& value) {
  const auto* root = state.body.as<ReduceNode>();
  const auto factors = half_factors(value);
  const bool plain = !state.root && !plan.lane_var.get() && !root->condition.get() &&
                     root->reduce == ReduceKind::kSum && plan.accumulator->dtype == DType::kF32;
  internal_check(plain && factors, "{}: is no sum of products of f16, or data choose its terms", state.op().name);
  std::vector<size_t> levels;  // positions in plan.inner
  for (const IterVarPtr& axis : state.stage->summation().half_axes) {
    const auto at = std::find(plan.inner.begin(), plan.inner.end(), state.leaf_index(axis.get()));
    levels.push_back(static_cast<size_t>(at - plan.inner.begin()));
    internal_check(
        at != plan.inner.end() && (levels.size() == 1 || levels[levels.size() - 2] < levels.back()),
        "{}: sums in f16 at {}, which is not inside those around", state.op().name, axis->name());
  }
  HalfSums sums{plan, std::move(levels), factors->first, factors->second, {}};
  for (size_t i = sums.levels[0]; i < plan.inner.size(); ++i) {
    const int leaf = plan.inner[i];
    if (!state.is_reduce_leaf(leaf)) sums.tile.push_back(leaf);
    const bool fixed = constant_of(state.leaf_extents[static_cast<size_t>(leaf)]).has_value();
    internal_check(sums.tile.empty() || (!state.is_reduce_leaf(leaf) && fixed && i > sums.levels.back()),
                   "{}: the leaves inside a sum in f16 are not a tile", state.op().name);
  }
  Stmt nest = build_half_level(state, sums, 0, [&](const Expr& chunk) {
    return store(plan.accumulator, plan.index, load(plan.accumulator, plan.index) + cast(DType::kF32, chunk));
  });
  const auto first = plan.inner.begin() + static_cast<std::ptrdiff_t>(sums.levels[0]);
  return build_loops(state, {plan.inner.begin(), first}, 0, Purpose::kCompute, false, nest);
}

/// The tile's sums start at 0, and are given to `finish` after the level's loops.
Stmt NestBuilder::build_half_level(StageState& state, const HalfSums& half, size_t level,
                                const std::function<Stmt(const Expr&)>& finish) {
  Expr point;
  Buffer sums = tile_sums(state, half.tile, DType::kF16, point);
  auto add_product = [&](const Expr& a, const Expr& b) {
    return store(sums, point, call(MathFn::kFma, {a, b, load(sums, point)}));
  };
  const bool last = level + 1 == half.levels.size();
  const auto begin = half.plan.inner.begin() + static_cast<std::ptrdiff_t>(half.levels[level]);
  const auto end = last ? half.plan.inner.end()
                        : half.plan.inner.begin() + static_cast<std::ptrdiff_t>(half.levels[level + 1]);
  Stmt innermost =
      last ? add_product(half.a, half.b) : build_half_level(state, half, level + 1, [&](const Expr& sum) {
        return add_product(sum, const_of(DType::kF16, 1));
      });
  Stmt clear = store(sums, point, const_of(DType::kF16, 0));
  return allocate(
      sums, block({build_loops(state, half.tile, 0, Purpose::kInitialize, false, clear),
                   build_loops(state, {begin, end}, 0, Purpose::kCompute, false, innermost),
                   build_loops(state, half.tile, 0, Purpose::kStore, false, finish(load(sums, point)))}));
}

/// Padding that is inline becomes guards, each inside the innermost loop that it mentions: taps outside of
/// the data are left out by rows, where the rows decide. What data decide stays a choice between values: a
/// guard would stand around the stages that make these data, and around the reduction's own condition, which
/// may be what keeps their indices inside.
Expr NestBuilder::lift_padding(StageState& state, int first_reduce) {
  const auto* root = state.body.as<ReduceNode>();
  std::vector<Expr> inside;
  std::optional<Expr> value = without_padding(root->reduce, root->value, inside);
  if (!value || state.root)
    return root->value;  // GPUs choose between values: code that differs is slow there
  Expr chosen;
  for (const Expr& claim : inside) {
    if (reads_data(claim)) {
      chosen = chosen ? chosen && claim : claim;
      continue;
    }
    Expr condition = to_loads(state, claim);
    if (constant_of(condition) == 1) continue;
    StageGuard guard{condition, first_reduce, true, StageGuard::Kind::kSplit};
    walk(condition, [&](const Expr& e) {
      const auto* var = e.as<VarNode>();
      auto it = var ? program_.loop_vars.find(var) : program_.loop_vars.end();
      if (it != program_.loop_vars.end() && it->second.first == &state)
        guard.level = std::max(guard.level, it->second.second);
    });
    state.guards.push_back(std::move(guard));
  }
  if (!chosen) return *value;
  return if_then_else(chosen, *value, identity_of(root->reduce, value->type().dtype));
}

namespace {

/// The lanes' accumulators of a point as one value, pairwise.
Expr combined_lanes(ReduceKind kind, const Reduction& plan) {
  std::vector<Expr> partial;
  for (int64_t lane = 0; lane < plan.lanes; ++lane)
    partial.push_back(load(plan.accumulator, plan.index + Expr(lane)));
  while (partial.size() > 1) {
    std::vector<Expr> next;
    for (size_t i = 0; i + 1 < partial.size(); i += 2)
      next.push_back(combine(kind, partial[i], partial[i + 1]));
    if (partial.size() % 2) next.push_back(partial.back());
    partial = std::move(next);
  }
  return partial[0];
}

/// Leaves the first of them with what all make together: the second half of the lanes is added to the first
/// until one is left. One by one, lanes would each have to be taken out of their vector.
Stmt fold_lanes(ReduceKind kind, const Reduction& plan) {
  std::vector<Stmt> steps;
  for (int64_t half = plan.lanes / 2; half > 0; half /= 2) {
    const Expr lane = make_var("lane");
    const Expr first = plan.index + lane, second = first + Expr(half);
    const Stmt add = store(plan.accumulator, first,
                           combine(kind, load(plan.accumulator, first), load(plan.accumulator, second)));
    steps.push_back(for_loop(lane, Expr(0), Expr(half), LoopKind::kVectorized, add));
  }
  return block(std::move(steps));
}

}  // namespace

/// acc = identity; acc = combine(acc, value) in all inner loops; result = acc. A vectorized reduction axis
/// gives each lane an accumulator of its own.
Stmt NestBuilder::build_reduction(StageState& state, int first_reduce) {
  const auto* root = state.body.as<ReduceNode>();
  Reduction plan = plan_reduction(state, first_reduce);
  Expr lane_index = plan.lane_var ? plan.index + plan.lane_var : plan.index;
  DType dtype = plan.accumulator->dtype;
  Stmt initial = store(plan.accumulator, lane_index, identity_of(root->reduce, dtype));
  if (plan.lane_var)
    initial = for_loop(plan.lane_var, Expr(0), Expr(plan.lanes), LoopKind::kVectorized, initial);

  Expr value = to_loads(state, lift_padding(state, first_reduce));
  if (value.type().dtype != dtype) value = cast(dtype, value);
  Stmt update =
      store(plan.accumulator, lane_index, combine(root->reduce, load(plan.accumulator, lane_index), value));
  if (root->condition) update = if_stmt(to_loads(state, root->condition), update);

  // Guards that moved inwards past barriers stand around each part.
  bool moved = meeting_leaf(state) >= first_reduce;
  Stmt init_nest = build_loops(state, plan.inner_data, 0, Purpose::kInitialize, plan.separate, initial);
  if (moved) init_nest = guarded(state, -1, first_reduce - 1, Purpose::kInitialize, plan.separate, init_nest);
  const size_t innermost = innermost_part(state, plan);
  Stmt update_nest = !state.stage->summation().half_axes.empty() ? build_half_update(state, plan, value)
                     : innermost > 0
                         ? build_cut_update(state, plan, innermost, value)
                         : build_loops(state, plan.inner, 0, Purpose::kCompute, plan.separate, update);
  if (!plan.separate) return block({init_nest, update_nest});
  if (plan.threads > 1) {
    return build_thread_reduction(state, plan, init_nest, update_nest, combined_lanes(root->reduce, plan));
  }
  const bool halves = plan.lanes > 1 && (plan.lanes & (plan.lanes - 1)) == 0;
  const Expr total = halves ? load(plan.accumulator, plan.index) : combined_lanes(root->reduce, plan);
  Stmt result = block(
      {halves ? fold_lanes(root->reduce, plan) : Stmt(), store(state.buffer, store_index(state), total)});
  Stmt finish = build_loops(state, plan.inner_data, 0, Purpose::kStore, plan.separate, result);
  if (moved) finish = guarded(state, -1, first_reduce - 1, Purpose::kStore, plan.separate, finish);
  return allocate(plan.accumulator, block({init_nest, update_nest, finish}));
}

}  // namespace gantry
