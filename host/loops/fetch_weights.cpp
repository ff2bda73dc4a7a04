// Hints for the weights that a product on tile registers reads next.
#include <algorithm>
#include <set>

#include "host/loops/tile_plan.h"
#include "host/support/divide.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

constexpr int64_t kLineBytes = 64;

/// The operands b of one step, which lie one behind the other.
struct StepWeights {
  const TileSource* first = nullptr;  ///< null if they do not
  int64_t elements = 0;
};

StepWeights weights_of(const TilePlan& plan, Simplifier& simplifier) {
  std::set<int> used;
  for (const Dot& dot : plan.dots) used.insert(dot.b);
  StepWeights weights;
  weights.elements = static_cast<int64_t>(used.size()) * plan.tile.columns * plan.tile.depth;
  for (int b : used) {
    const TileSource& source = plan.sources[static_cast<size_t>(b)];
    const auto behind = weights.first ? constant_of(simplifier.simplify(source.index - weights.first->index))
                                      : std::optional<int64_t>(-1);
    if (source.buffer->dtype != plan.tile.element || !behind) return {};
    if (*behind < 0) weights.first = &source;
  }
  return weights;
}

using Values = std::vector<std::pair<const VarNode*, Expr>>;

/// The loops around a step, outermost first: those that choose the chunk of weights, one over blocks of rows
/// that read it in turn, those that choose the step in the chunk.
struct ChunkLoops {
  int rows = -1;  ///< none: no weights are read twice
  int64_t repeats = 1, steps = 1;
  Expr position = Expr(0);  ///< which of repeats * steps
  Values start;             ///< the loops inside `rows` at 0
};

ChunkLoops chunk_loops(const StageState& state, int first_tile, const Expr& index) {
  ChunkLoops loops;
  auto var = [&](int leaf) { return state.leaf_vars[static_cast<size_t>(leaf)]; };
  int rows = first_tile - 1;
  while (rows >= 0 && (state.is_reduce_leaf(rows) || mentions(index, var(rows)))) --rows;
  if (rows < 0) return loops;
  for (int leaf = rows; leaf < first_tile; ++leaf) {
    const auto extent = constant_of(state.leaf_extents[static_cast<size_t>(leaf)]);
    if (!extent) return {};
    loops.position = loops.position * Expr(*extent) + var(leaf);
    if (leaf == rows) {
      loops.repeats = *extent;
      continue;
    }
    loops.steps *= *extent;
    loops.start.emplace_back(var(leaf).as<VarNode>(), Expr(0));
  }
  loops.rows = rows;
  return loops;
}

/// Where the chunk begins that is read after this one. The loops that choose it, innermost first: the next
/// iteration of the first that has one, where those inside it begin again. Behind the last chunk: where the
/// innermost would go on.
Expr next_chunk(const StageState& state, const ChunkLoops& loops, const StepWeights& weights) {
  const Expr& index = weights.first->index;
  std::vector<size_t> chosen_by;
  for (int leaf = loops.rows - 1; leaf >= 0; --leaf)
    if (mentions(index, state.leaf_vars[static_cast<size_t>(leaf)]))
      chosen_by.push_back(static_cast<size_t>(leaf));
  if (chosen_by.empty()) return substitute(index, loops.start) + Expr(loops.steps * weights.elements);
  auto at = [&](size_t begun, const Expr& value) {
    Values values = loops.start;
    for (size_t i = 0; i < begun; ++i)
      values.emplace_back(state.leaf_vars[chosen_by[i]].as<VarNode>(), Expr(0));
    values.emplace_back(state.leaf_vars[chosen_by[begun]].as<VarNode>(), value);
    return values;
  };
  Values behind = at(0, state.leaf_extents[chosen_by[0]]);
  for (size_t i = 1; i < chosen_by.size(); ++i)
    behind.emplace_back(state.leaf_vars[chosen_by[i]].as<VarNode>(), Expr(0));
  Expr next = substitute(index, behind);
  for (size_t i = chosen_by.size(); i-- > 0;) {
    const Expr following = state.leaf_vars[chosen_by[i]] + Expr(1);
    next = select(lt(following, state.leaf_extents[chosen_by[i]]), substitute(index, at(i, following)), next);
  }
  return next;
}

}  // namespace

std::vector<Stmt> NestBuilder::fetch_weights(const StageState& state, const TilePlan& plan) {
  if (!plan.wants_hints()) return {};
  const StepWeights weights = weights_of(plan, simplifier_);
  if (!weights.first) return {};
  const ChunkLoops loops = chunk_loops(state, plan.first_tile, weights.first->index);
  // Read once, weights are wanted in the first-level cache: those of the next step. A chunk has time to
  // arrive in the second level while this one is read again and again: each step asks for its share. Behind
  // tiles that are fewer than they might be come no others of the block, which would ask for theirs.
  const int64_t repeats = plan.height < plan.row_tiles ? 1 : loops.repeats;
  const bool again = repeats > 1;
  const int64_t in_line = kLineBytes / byte_width(plan.tile.element);
  const int64_t lines = ceil_div(weights.elements / in_line, repeats);
  const Expr begin = again ? next_chunk(state, loops, weights) + loops.position * Expr(lines * in_line)
                           : weights.first->index + Expr(weights.elements);
  std::vector<Stmt> hints;
  for (int64_t line = 0; line < lines; ++line)
    hints.push_back(prefetch(weights.first->buffer, simplifier_.simplify(begin + Expr(line * in_line)),
                             again ? Fetch::kSecondLevel : Fetch::kFirstLevel));
  return hints;
}

}  // namespace gantry
