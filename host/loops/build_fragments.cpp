// Stages whose innermost three loops are one tensor-core instruction.
//
// A warp computes a tile of 16 x 8 results at once; its threads hold parts of the operands and of the result
// in registers ("fragments"), laid out as the PTX ISA describes under "Matrix Fragments for mma.m16n8k8" and
// "… mma.m16n8k16": lane l is member l % 4 of group l / 4.
//
//   result   element e of a thread: row group + e / 2 * 8, column member * 2 + e % 2
//   A, TF32  row group + e % 2 * 8, k member + e / 2 * 4           B: k member + e * 4, column group
//   A, half  row group + e / 2 % 2 * 8, k member * 2 + e % 2 + e / 4 * 8
//   B, half  k member * 2 + e % 2 + e / 2 * 8, column group
//
// A stage's results are tiles one after another, rows of tiles first, four elements of each a thread.
#include "host/loops/nest_builder.h"
#include "host/support/error.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

struct Place {
  Expr outer, k;  ///< row of A or column of B; position along k
};

Place place_in_a(MmaShape shape, const Expr& group, const Expr& member, int64_t e) {
  if (shape == MmaShape::kM16N8K8Tf32) return {group + Expr(e % 2 * 8), member + Expr(e / 2 * 4)};
  return {group + Expr(e / 2 % 2 * 8), member * Expr(2) + Expr(e % 2 + e / 4 * 8)};
}

Place place_in_b(MmaShape shape, const Expr& group, const Expr& member, int64_t e) {
  if (shape == MmaShape::kM16N8K8Tf32) return {group, member + Expr(e * 4)};
  return {group, member * Expr(2) + Expr(e % 2 + e / 2 * 8)};
}

/// Are the values neighbours in memory (perhaps after the same conversion)?
bool follows(const Expr& first, const Expr& second, Simplifier& simplifier) {
  const auto *a = first.as<LoadNode>(), *b = second.as<LoadNode>();
  if (!a || !b || a->buffer != b->buffer || a->predicate.get() || b->predicate.get()) return false;
  return constant_of(simplifier.simplify(b->index - a->index)) == 1;
}

}  // namespace

/// Of the thread in its warp: group and member.
std::pair<Expr, Expr> lane_digits(const Expr& thread) {
  return {mod(floordiv(thread, Expr(4)), Expr(8)), mod(thread, Expr(4))};
}

/// Which data axes hold the rows and columns of the instruction.
std::pair<size_t, size_t> fragment_axes(const StageState& state) {
  size_t count = state.leaf_vars.size();
  auto axis_of = [&](const Expr& leaf) {
    for (size_t d = 0; d < state.op().axes.size(); ++d) {
      if (mentions(state.axis_values.at(state.op().axes[d]->var.as<VarNode>()), leaf)) return d;
    }
    internal_error("{}: {} is no part of a data axis", state.op().name, to_string(leaf));
  };
  return {axis_of(state.leaf_vars[count - 3]), axis_of(state.leaf_vars[count - 2])};
}

void NestBuilder::check_fragment(const StageState& state) {
  const std::string& name = state.op().name;
  size_t count = state.leaf_vars.size();
  MmaShape shape = *state.stage->mma();
  const auto* root = state.body.as<ReduceNode>();
  const auto* product = root ? root->value.as<BinaryNode>() : nullptr;
  internal_check(state.root && state.scope == StorageScope::kFragment,
                 "{}: tensor-core results must have the scope kFragment, inside a launch", name);
  internal_check(product && product->op == BinaryOp::kMul && root->reduce == ReduceKind::kSum &&
                     !root->condition.get() && state.buffer->dtype == DType::kF32,
                 "{}: a tensor-core instruction computes a sum of products in f32", name);
  int64_t sizes[] = {kMmaRows, kMmaColumns, geometry_of(shape).depth};
  for (size_t i = 0; i < 3; ++i) {
    bool fits = constant_of(state.leaf_extents[count - 3 + i]) == sizes[i] &&
                state.is_reduce_leaf(static_cast<int>(count - 3 + i)) == (i == 2);
    internal_check(fits, "{}: the three innermost loops must be rows, columns, k of {} x {} x {}", name,
                   sizes[0], sizes[1], sizes[2]);
  }
  internal_check(state.root->block_threads % 32 == 0, "{}: {} threads are not whole warps", name,
                 state.root->block_threads);
  for (const StageGuard& guard : state.guards) {
    if (!needs(state, guard, Purpose::kCompute, false)) continue;
    internal_error(
        "{}: a tensor-core instruction cannot be skipped where {} fails; its operands must be tiles in "
        "shared "
        "memory, with sizes that are multiples of the instruction's",
        name, to_string(guard.condition));
  }
}

/// Elements that each thread holds of the stage's region.
int64_t fragment_elements(const StageState& state) {
  auto [row_axis, column_axis] = fragment_axes(state);
  int64_t elements = kMmaResults;
  for (size_t d = 0; d < state.extent.size(); ++d) {
    auto extent = constant_of(state.extent[d]);
    int64_t unit = d == row_axis ? kMmaRows : d == column_axis ? kMmaColumns : 1;
    if (!extent || *extent % unit != 0) {
      internal_error("{}: a warp computes {} elements of dimension {}; that must be a multiple of {}",
                     state.op().name, to_string(state.extent[d]), d, unit);
    }
    elements *= *extent / unit;
  }
  return elements;
}

/// Where the first element of the tile that contains the point lies; `offsets`: from the region's start.
Expr NestBuilder::fragment_tile(const StageState& state, const std::vector<Expr>& offsets) {
  auto [row_axis, column_axis] = fragment_axes(state);
  Expr flat(0);
  for (size_t d = 0; d < offsets.size(); ++d) {
    int64_t unit = d == row_axis ? kMmaRows : d == column_axis ? kMmaColumns : 1;
    flat = flat * floordiv(state.extent[d], Expr(unit)) + floordiv(offsets[d], Expr(unit));
  }
  return simplifier_.simplify(flat * Expr(kMmaResults));
}

/// A consumer's read: it must be of an element that the reading thread itself holds.
Expr NestBuilder::read_fragment(const StageState& state, const std::vector<Expr>& indices) {
  auto [row_axis, column_axis] = fragment_axes(state);
  std::vector<Expr> offsets;
  for (size_t d = 0; d < indices.size(); ++d)
    offsets.push_back(simplifier_.simplify(indices[d] - state.low[d]));
  Expr row = simplifier_.simplify(mod(offsets[row_axis], Expr(kMmaRows)));
  Expr column = simplifier_.simplify(mod(offsets[column_axis], Expr(kMmaColumns)));
  auto [group, member] = lane_digits(state.root->thread_var);
  std::vector<std::pair<const VarNode*, Expr>> digits(program_.thread_values.begin(), program_.thread_values.end());
  auto same = [&](const Expr& got, const Expr& held) {
    return constant_of(simplifier_.simplify(substitute(simplifier_.simplify(got), digits) - held)) == 0;
  };
  if (!same(mod(row, Expr(8)), group) || !same(floordiv(column, Expr(2)), member)) {
    internal_error(
        "{}: a thread reads row {} and column {} of a tensor-core tile, which another thread holds; rows "
        "must "
        "be split into (2, 8 threads), columns into (4 threads, 2), the threads being the block's innermost",
        state.op().name, to_string(row), to_string(column));
  }
  Expr element = floordiv(row, Expr(8)) * Expr(2) + mod(column, Expr(2));
  return load(state.buffer, simplifier_.simplify(fragment_tile(state, offsets) + element));
}

/// Loads one operand of every instruction in `leaves` that it differs between. `index`: of the first element,
/// in terms of these leaves.
Stmt NestBuilder::load_operand(StageState& state, const Expr& factor, bool is_a, const std::vector<int>& leaves,
                            Buffer& fragment, Expr& index) {
  MmaShape shape = *state.stage->mma();
  const MmaGeometry& geometry = geometry_of(shape);
  size_t count = state.leaf_vars.size();
  DType dtype = geometry.operand;
  Expr value = factor;
  if (const auto* node = value.as<CastNode>(); node && node->a.type().dtype == dtype) value = node->a;
  value = to_loads(state, value);
  if (value.type().dtype != dtype) value = cast(dtype, value);
  int64_t elements = is_a ? geometry.a_elements() : geometry.b_elements(), total = 1;
  std::vector<int> loops;
  index = Expr(0);
  for (int leaf : leaves) {
    auto at = static_cast<size_t>(leaf);
    if (!mentions(value, state.leaf_vars[at])) continue;
    loops.push_back(leaf);
    index = index * state.leaf_extents[at] + state.leaf_vars[at];
    total *= *constant_of(state.leaf_extents[at]);
  }
  index = index * Expr(elements);
  fragment = std::make_shared<BufferNode>(BufferNode{unique_(state.op().name + (is_a ? ".a" : ".b")), dtype,
                                                     Expr(total * elements), BufferScope::kLocal, 16});
  auto [group, member] = lane_digits(state.root->thread_var);
  const auto *outer = state.leaf_vars[count - (is_a ? 3 : 2)].as<VarNode>(),
             *depth = state.leaf_vars[count - 1].as<VarNode>();
  auto element_at = [&](const Place& place) {
    return simplifier_.simplify(substitute(value, {{outer, place.outer}, {depth, place.k}}));
  };
  std::vector<Stmt> loads;
  for (int64_t e = 0; e < elements; ++e) {
    auto place = [&](int64_t i) {
      return is_a ? place_in_a(shape, group, member, i) : place_in_b(shape, group, member, i);
    };
    Expr first = element_at(place(e));
    bool pair = dtype != DType::kF32 && e % 2 == 0 && follows(first, element_at(place(e + 1)), simplifier_);
    if (!pair) {
      loads.push_back(store(fragment, index + Expr(e), first));
      continue;
    }
    Expr half = make_var("half");
    Place at = place(e);
    loads.push_back(for_loop(half, Expr(0), Expr(2), LoopKind::kVectorized,
                             store(fragment, index + Expr(e++) + half, element_at({at.outer, at.k + half}))));
  }
  Stmt nest = block(std::move(loads));
  for (auto it = loops.rbegin(); it != loops.rend(); ++it) {
    auto at = static_cast<size_t>(*it);
    nest = for_loop(state.leaf_vars[at], Expr(0), state.leaf_extents[at], LoopKind::kUnrolled, nest);
  }
  return nest;
}

Stmt NestBuilder::build_mma(StageState& state, int first_reduce) {
  check_fragment(state);
  MmaShape shape = *state.stage->mma();
  int count = static_cast<int>(state.leaf_vars.size());
  std::vector<int> data, steps, tiles;  // all data leaves; up to the last step along k; inside it
  for (int i = first_reduce; i < count - 3; ++i) {
    if (!state.is_reduce_leaf(i)) data.push_back(i);
    tiles.push_back(i);
    if (!state.is_reduce_leaf(i)) continue;
    steps.insert(steps.end(), tiles.begin(), tiles.end());
    tiles.clear();
  }
  internal_check(meeting_leaf(state) < (tiles.empty() ? count - 3 : tiles[0]),
                 "{}: stages are attached inside its last step along k", state.op().name);
  std::vector<std::pair<const VarNode*, Expr>> start;
  for (int i = count - 3; i < count - 1; ++i)
    start.emplace_back(state.leaf_vars[static_cast<size_t>(i)].as<VarNode>(), Expr(0));
  std::vector<Expr> offsets;
  for (size_t d = 0; d < state.op().axes.size(); ++d) {
    const Expr& value = state.axis_values.at(state.op().axes[d]->var.as<VarNode>());
    offsets.push_back(simplifier_.simplify(substitute(value, start) - state.low[d]));
  }
  Expr tile = fragment_tile(state, offsets);
  std::vector<Stmt> zeros;
  for (int64_t e = 0; e < kMmaResults; ++e)
    zeros.push_back(store(state.buffer, tile + Expr(e), float_imm(DType::kF32, 0)));
  Stmt init = build_loops(state, data, 0, Purpose::kInitialize, true, block(std::move(zeros)));

  const auto* product = state.body.as<ReduceNode>()->value.as<BinaryNode>();
  std::vector<std::pair<const VarNode*, Expr>> bindings(state.axis_values.begin(), state.axis_values.end());
  bool a_first = mentions(substitute(product->a, bindings), state.leaf_vars[static_cast<size_t>(count - 3)]);
  Buffer a, b;
  Expr a_index, b_index;
  Stmt load_a = load_operand(state, a_first ? product->a : product->b, true, tiles, a, a_index);
  Stmt load_b = load_operand(state, a_first ? product->b : product->a, false, tiles, b, b_index);
  Stmt multiply = build_loops(state, tiles, 0, Purpose::kInitialize, true,
                              mma(shape, state.buffer, tile, a, a_index, b, b_index));
  Stmt step = allocate(a, allocate(b, block({load_a, load_b, multiply})));
  return block({init, build_loops(state, steps, 0, Purpose::kCompute, true, step)});
}

}  // namespace gantry
