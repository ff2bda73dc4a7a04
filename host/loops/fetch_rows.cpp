// Hints for the rows of the operand that a product on tile registers reads in its next phase.
//
// Winograd's positions are such phases: each multiplies rows and weights of its own, block of columns by
// block of columns. All rows together are more than the second-level cache holds, so that those of a phase
// come from afar, or from the core that made them; while the blocks of columns of the phase before are
// multiplied there is time to fetch them.
#include "host/loops/tile_plan.h"
#include "host/support/divide.h"
#include "host/tensor/fold.h"

namespace gantry {

/// The hints of one step: of each of its tiles in the next phase, the share of this block of columns.
std::vector<Stmt> NestBuilder::fetch_rows(const StageState& state, const TilePlan& plan) {
  if (!plan.wants_hints() || state.op().axes.size() != 3) return {};
  const Expr& phase = state.leaf_vars.front();
  if (constant_of(state.leaf_extents.front()).value_or(1) == 1) return {};
  // Which of the blocks that read the same rows.
  Expr repeat(0);
  int64_t repeats = 1;
  std::set<int> rows;
  for (const Dot& dot : plan.dots) rows.insert(dot.a);
  for (size_t leaf = 1; leaf < static_cast<size_t>(plan.first_tile); ++leaf) {
    bool read = false;
    for (int a : rows) read |= mentions(plan.sources[static_cast<size_t>(a)].index, state.leaf_vars[leaf]);
    const auto extent = constant_of(state.leaf_extents[leaf]);
    if (read) continue;
    if (!extent) return {};
    repeat = repeat * Expr(*extent) + state.leaf_vars[leaf];
    repeats *= *extent;
  }
  const int64_t share = ceil_div(plan.rows, repeats);
  std::vector<Stmt> hints;
  for (int a : rows) {
    const TileSource& source = plan.sources[static_cast<size_t>(a)];
    const Expr next = substitute(source.index, {{phase.as<VarNode>(), phase + Expr(1)}});
    for (int64_t row = 0; row < share; ++row)
      hints.push_back(prefetch(
          source.buffer, simplifier_.simplify(next + (repeat * Expr(share) + Expr(row)) * source.stride)));
  }
  return hints;
}

}  // namespace gantry
