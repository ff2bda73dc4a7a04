// Products on a CPU's tile registers: a block of row tiles x column tiles is accumulated in registers over
// all steps along k, then stored.
#include <algorithm>

#include "host/loops/index_terms.h"
#include "host/loops/tile_plan.h"
#include "host/support/divide.h"
#include "host/support/error.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

/// Gives operands registers; the one that is needed last makes room (Belady). Left operands and weights have
/// registers of their own, which takes no more loads for two by two tiles.
class RegisterFile {
 public:
  explicit RegisterFile(const TilePlan& plan)
      : first_(plan.accumulators()),
        left_(plan.first_weight() - plan.accumulators()),
        held_(static_cast<size_t>(plan.tile.registers - first_), -1),
        sources_(plan.sources),
        dots_(plan.dots) {}

  /// The register of source `wanted` for instruction `now`; loads it if need be.
  int get(int wanted, bool is_left, size_t now, std::vector<Stmt>& code) {
    const auto begin = static_cast<size_t>(is_left ? 0 : left_),
               end = is_left ? static_cast<size_t>(left_) : held_.size();
    size_t best = begin, best_use = 0;
    for (size_t r = begin; r < end; ++r) {
      if (held_[r] == wanted) return first_ + static_cast<int>(r);
      const size_t use = held_[r] < 0 ? dots_.size() + 1 : next_use(held_[r], now);
      if (use > best_use) best = r, best_use = use;
    }
    held_[best] = wanted;
    const TileSource& source = sources_[static_cast<size_t>(wanted)];
    const int reg = first_ + static_cast<int>(best);
    code.push_back(tile_load(reg, source.buffer, source.index, source.stride));
    return reg;
  }

 private:
  size_t next_use(int source, size_t now) const {
    size_t i = now;
    while (i < dots_.size() && dots_[i].a != source && dots_[i].b != source) ++i;
    return i + 1;
  }

  int first_, left_;
  std::vector<int> held_;
  const std::vector<TileSource>& sources_;
  const std::vector<Dot>& dots_;
};

/// Where the elements of an operand's tile lie.
class TileIndex {
 public:
  /// `at`: the block's tile and 0 for m, n and k.
  TileIndex(const LoadNode& load, std::vector<std::pair<const VarNode*, Expr>> at, Simplifier& simplifier)
      : load_(load), at_(std::move(at)), simplifier_(simplifier) {}

  Expr first() { return index({}); }
  /// From the tile's first element to the one at these values of m, n or k.
  Expr distance(const std::vector<std::pair<Expr, int64_t>>& to) {
    return simplifier_.simplify(index(to) - first());
  }
  bool lies_at(const std::vector<std::pair<Expr, int64_t>>& to, const Expr& expected) {
    return constant_of(simplifier_.simplify(distance(to) - expected)) == 0;
  }

 private:
  Expr index(const std::vector<std::pair<Expr, int64_t>>& to) {
    std::vector<std::pair<const VarNode*, Expr>> values = at_;
    for (auto& [var, value] : values) {
      for (const auto& [moved, position] : to)
        if (var == moved.as<VarNode>()) value = Expr(position);
    }
    return simplifier_.simplify(substitute(load_.index, values));
  }

  const LoadNode& load_;
  std::vector<std::pair<const VarNode*, Expr>> at_;
  Simplifier& simplifier_;
};

/// The memory of a tile of `rows` rows of operand a: elements along k adjoin. Where rows are packed, the next
/// row's copy lies beside each row, which begins a block of its own.
TileSource rows_source(const TileGeometry& tile, const LoadNode& load, const Expr& m, const Expr& k,
                       int64_t rows, TileIndex at) {
  const bool packed = tile.row_pack > 1;
  const Expr apart = at.distance({{m, 1}});
  const bool fits = at.lies_at({{m, rows - 1}}, apart * Expr(rows - 1)) &&
                    at.lies_at({{k, tile.depth - 1}}, Expr(tile.depth - 1)) &&
                    (!packed || constant_of(apart) == tile.row_elements());
  internal_check(fits, "{} does not lie in memory as tile registers read rows", load.buffer->name);
  return {load.buffer, at.first(), packed ? Expr(tile.side_by_side) : apart};
}

/// Of operand b: neighbours along k adjoin, then columns.
TileSource columns_source(const TileGeometry& tile, const LoadNode& load, const Expr& n, const Expr& k,
                          TileIndex at) {
  const int64_t side = tile.side_by_side, rows = tile.depth / side;
  const Expr stride = rows == 1 ? Expr(tile.column_elements()) : at.distance({{k, side}});
  const bool fits = at.lies_at({{k, (rows - 1) * side}}, stride * Expr(rows - 1)) &&
                    at.lies_at({{k, side - 1}}, Expr(side - 1)) &&
                    at.lies_at({{n, tile.columns - 1}}, Expr(side * (tile.columns - 1)));
  internal_check(fits, "{} does not lie in memory as tile registers read columns", load.buffer->name);
  return {load.buffer, at.first(), stride};
}

/// The loops' variables at the first element of tile (i, j) of the block.
std::vector<std::pair<const VarNode*, Expr>> at_tile(const StageState& state, int first_tile, int64_t i,
                                                     int64_t j) {
  std::vector<std::pair<const VarNode*, Expr>> values;
  const int64_t first[] = {i, j, 0, 0, 0};
  for (size_t v = 0; v < 5; ++v)
    values.emplace_back(state.leaf_vars[static_cast<size_t>(first_tile) + v].as<VarNode>(), Expr(first[v]));
  return values;
}

}  // namespace

TilePlan NestBuilder::plan_tiles(const StageState& state, int first_reduce) const {
  const std::string& name = state.op().name;
  const auto* root = state.body.as<ReduceNode>();
  const auto count = static_cast<int>(state.leaf_vars.size());
  TilePlan plan(*state.stage->tiles());
  plan.first_tile = count - 5;
  internal_check(root && root->reduce == ReduceKind::kSum && !root->condition && state.buffer &&
                     state.buffer->dtype == plan.tile.sum && first_reduce <= plan.first_tile && !state.root,
                 "{}: tile registers compute sums in {} on a CPU, with steps along k around the tiles", name,
                 name_of(plan.tile.sum));
  auto extent_of = [&](int leaf) {
    return constant_of(state.leaf_extents[static_cast<size_t>(leaf)]).value_or(0);
  };
  plan.row_tiles = extent_of(plan.first_tile);
  plan.column_tiles = extent_of(plan.first_tile + 1);
  plan.height = plan.row_tiles;
  plan.rows = extent_of(count - 3);
  const TileGeometry& tile = plan.tile;
  internal_check(plan.rows > 0 && plan.rows <= tile.rows && (tile.fewer_rows || plan.rows == tile.rows) &&
                     extent_of(count - 2) == tile.columns && extent_of(count - 1) == tile.depth &&
                     state.is_reduce_leaf(count - 1) && plan.row_tiles > 0 && plan.column_tiles > 0 &&
                     plan.accumulators() + 2 <= tile.registers,
                 "{}: the five innermost loops must be row tiles, column tiles, {}, {}, {}", name, tile.rows,
                 tile.columns, tile.depth);
  if (!state.guards.empty()) {
    internal_error("{}: tiles go beyond what there is: {}", name, to_string(state.guards.front().condition));
  }
  // Steps are the reduction loops directly around the tiles. What reduces around data loops goes back to
  // memory between its iterations.
  int first_step = plan.first_tile;
  while (first_step > first_reduce && state.is_reduce_leaf(first_step - 1)) --first_step;
  for (int leaf = first_reduce; leaf < plan.first_tile; ++leaf) {
    (leaf < first_step ? plan.outer : plan.steps).push_back(leaf);
    if (leaf >= first_step || !state.is_reduce_leaf(leaf)) continue;
    Expr first = eq(state.leaf_vars[static_cast<size_t>(leaf)], Expr(0));
    plan.begins = plan.begins ? plan.begins && first : first;
  }
  return plan;
}

/// The instructions of one step along k and what they read.
void NestBuilder::plan_dots(const StageState& state, TilePlan& plan) {
  const std::string& name = state.op().name;
  const auto var = [&](int offset) { return state.leaf_vars[static_cast<size_t>(plan.first_tile + offset)]; };
  const Expr m = var(2), n = var(3), k = var(4);
  auto add_source = [&](const TileSource& source) {
    auto same = [&](const TileSource& s) {
      return s.buffer == source.buffer && structurally_equal(s.index, source.index);
    };
    auto it = std::ranges::find_if(plan.sources, same);
    if (it == plan.sources.end()) it = plan.sources.insert(plan.sources.end(), source);
    return static_cast<int>(it - plan.sources.begin());
  };
  auto load_of = [&](const Expr& e, DType element) {
    const auto* cast = e.as<CastNode>();
    const auto* load = cast ? cast->a.as<LoadNode>() : nullptr;
    internal_check(load && load->buffer->dtype == element, "{}: {} is no operand in memory of {}", name,
                   to_string(e), name_of(element));
    return load;
  };
  std::vector<Expr> terms;
  collect_terms(state.body.as<ReduceNode>()->value, terms);
  for (const Expr& term : terms) {
    const auto* product = term.as<BinaryNode>();
    internal_check(product && product->op == BinaryOp::kMul, "{}: tile registers sum products", name);
    const Expr left = to_loads(state, product->a), right = to_loads(state, product->b);
    const bool swapped = mentions(right, m);
    const LoadNode* a = load_of(swapped ? right : left, plan.tile.row_element);
    const LoadNode* b = load_of(swapped ? left : right, plan.tile.element);
    std::vector<int> rows, columns;
    for (int64_t i = 0; i < plan.height; ++i)
      rows.push_back(add_source(rows_source(plan.tile, *a, m, k, plan.rows,
                                            {*a, at_tile(state, plan.first_tile, i, 0), simplifier_})));
    for (int64_t j = 0; j < plan.column_tiles; ++j)
      columns.push_back(add_source(
          columns_source(plan.tile, *b, n, k, {*b, at_tile(state, plan.first_tile, 0, j), simplifier_})));
    // To and fro: each instruction shares an operand with the last.
    for (int64_t i = 0; i < plan.height; ++i) {
      for (int64_t jj = 0; jj < plan.column_tiles; ++jj) {
        const int64_t j = i % 2 ? plan.column_tiles - 1 - jj : jj;
        plan.dots.push_back(
            {plan.accumulator(i, j), rows[static_cast<size_t>(i)], columns[static_cast<size_t>(j)]});
      }
    }
  }
}

/// Both in their orders, each as evenly as there are of it.
static std::vector<Stmt> spread(std::vector<Stmt> a, std::vector<Stmt> b) {
  std::vector<Stmt> both;
  for (size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    const bool first = j == b.size() || (i < a.size() && i * b.size() <= j * a.size());
    both.push_back(std::move(first ? a[i++] : b[j++]));
  }
  return both;
}

/// Loads and instructions of one step, the hints `ahead` between them: asked for all at once, what they fetch
/// would block the loads of tiles.
static Stmt tile_step(const TilePlan& plan, const std::vector<Stmt>& ahead) {
  std::vector<Stmt> code;
  RegisterFile registers(plan);
  const size_t count = plan.dots.size();
  for (size_t i = 0; i < count; ++i) {
    const Dot& dot = plan.dots[i];
    int a = registers.get(dot.a, true, i, code);
    int b = registers.get(dot.b, false, i, code);
    code.push_back(tile_dot(dot.accumulator, a, b));
    for (size_t line = i * ahead.size() / count; line < (i + 1) * ahead.size() / count; ++line)
      code.push_back(ahead[line]);
  }
  return block(std::move(code));
}

/// The block of accumulators, as high as the plan says, inside of the plan's outer loops: sums begin, take
/// all steps and are stored.
Stmt NestBuilder::build_accumulators(StageState& state, TilePlan plan) {
  plan_dots(state, plan);
  std::vector<Stmt> zero, resume, store;
  const Expr result = store_index(state);
  for (int64_t i = 0; i < plan.height; ++i) {
    for (int64_t j = 0; j < plan.column_tiles; ++j) {
      auto at = at_tile(state, plan.first_tile, i, j);
      const Expr first = simplifier_.simplify(substitute(result, at));
      at[2].second = Expr(1);
      const Expr stride = simplifier_.simplify(substitute(result, at) - first);
      const int tile = plan.accumulator(i, j);
      zero.push_back(tile_zero(tile));
      resume.push_back(tile_load(tile, state.buffer, first, stride));
      store.push_back(tile_store(tile, state.buffer, first, stride));
    }
  }
  Stmt start = block(std::move(zero));
  if (plan.begins) start = if_stmt(plan.begins, start, block(std::move(resume)));
  const std::vector<Stmt> ahead =
      spread(spread(fetch_weights(state, plan), fetch_results(state, plan)), fetch_rows(state, plan));
  const Stmt steps = build_loops(state, plan.steps, 0, Purpose::kCompute, true, tile_step(plan, ahead));
  return block({start, steps, block(std::move(store))});
}

/// Heights of a block, of which one is computed, the lowest last: of each less than a third is in vain.
static std::vector<int64_t> heights_of(int64_t row_tiles) {
  std::vector<int64_t> heights{row_tiles};
  while (heights.back() > 1) {
    const int64_t last = heights.back();
    heights.push_back(std::min(last - 1, ceil_div(2 * last, 3)));
  }
  return heights;
}

/// The lowest block that holds the rows before `end`; none where there are no such rows.
Stmt NestBuilder::build_heights(StageState& state, TilePlan plan, const Expr& end) {
  const auto& axes = state.op().axes;
  const Expr row = state.axis_values.at(axes[axes.size() - 2]->var.as<VarNode>());
  const Expr left = simplifier_.simplify(end - substitute(row, at_tile(state, plan.first_tile, 0, 0)));
  const std::vector<int64_t> heights = heights_of(plan.row_tiles);
  Stmt lower;
  for (auto height = heights.rbegin(); height != heights.rend(); ++height) {
    const Expr held(plan.height * plan.rows);  // by the next lower one
    plan.height = *height;
    const Stmt computed = build_accumulators(state, plan);
    lower = lower ? if_stmt(lt(held, left), computed, lower) : if_stmt(lt(Expr(0), left), computed);
  }
  return lower;
}

Stmt NestBuilder::build_tiles(StageState& state, int first_reduce) {
  const TilePlan plan = plan_tiles(state, first_reduce);
  const Expr& end = state.stage->region().rows_end;
  const Stmt computed = end ? build_heights(state, plan, end) : build_accumulators(state, plan);
  return build_loops(state, plan.outer, 0, Purpose::kCompute, true, computed);
}

/// Registers for what build_tiles() writes: weights have their full height, all others the tile's rows.
Stmt NestBuilder::configure_tiles(const StageState& state) const {
  TilePlan plan(*state.stage->tiles());
  const size_t first = state.leaf_extents.size() - 5;
  plan.row_tiles = constant_of(state.leaf_extents[first]).value();
  plan.column_tiles = constant_of(state.leaf_extents[first + 1]).value();
  return tile_configure(plan.tile.unit, static_cast<int>(constant_of(state.leaf_extents[first + 2]).value()),
                        plan.first_weight());
}

}  // namespace gantry
