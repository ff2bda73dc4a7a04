// Products on a CPU's tile registers: a block of row tiles x column tiles is accumulated in registers over
// all steps along k, then stored.
#include <algorithm>
#include <set>

#include "host/loops/lower_state.h"
#include "host/support/error.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

constexpr int64_t kRows = 16, kColumns = 16, kDepth = 32;
constexpr int kRegisters = 8;

/// Rows of 64 bytes in memory.
struct TileSource {
  Buffer buffer;
  Expr index, stride;
};

/// One instruction: which accumulator, which operands (numbers of sources).
struct Dot {
  int accumulator, a, b;
};

/// Gives operands registers; the one that is needed last makes room (Belady).
class RegisterFile {
 public:
  RegisterFile(int first, const std::vector<TileSource>& sources, const std::vector<Dot>& dots)
      : first_(first), held_(static_cast<size_t>(kRegisters - first), -1), sources_(sources), dots_(dots) {}

  /// The register of source `wanted` for instruction `now`; loads it if need be, but not over `kept`.
  int get(int wanted, size_t now, int kept, std::vector<Stmt>& code) {
    size_t best = 0, best_use = 0;
    for (size_t r = 0; r < held_.size(); ++r) {
      if (held_[r] == wanted) return first_ + static_cast<int>(r);
      if (held_[r] == kept && kept >= 0) continue;
      size_t use = held_[r] < 0 ? dots_.size() + 1 : next_use(held_[r], now);
      if (use > best_use || (best_use == 0 && use == 0)) best = r, best_use = use;
    }
    held_[best] = wanted;
    const TileSource& source = sources_[static_cast<size_t>(wanted)];
    int reg = first_ + static_cast<int>(best);
    code.push_back(tile_load(reg, source.buffer, source.index, source.stride));
    return reg;
  }

 private:
  size_t next_use(int source, size_t now) const {
    size_t i = now;
    while (i < dots_.size() && dots_[i].a != source && dots_[i].b != source) ++i;
    return i + 1;
  }

  int first_;
  std::vector<int> held_;
  const std::vector<TileSource>& sources_;
  const std::vector<Dot>& dots_;
};

void collect_terms(const Expr& e, std::vector<Expr>& terms) {
  const auto* node = e.as<BinaryNode>();
  if (node && node->op == BinaryOp::kAdd) {
    collect_terms(node->a, terms);
    collect_terms(node->b, terms);
    return;
  }
  terms.push_back(e);
}

bool mentions(const Expr& e, const Expr& var) {
  bool found = false;
  walk(e, [&](const Expr& x) { found |= x.same_as(var); });
  return found;
}

}  // namespace

/// The memory of an operand's tile. `at`: the block's tile and 0 for m, n and k.
static TileSource source_of(const std::string& name, const LoadNode& load, const Expr& major,
                            const Expr& minor, int64_t major_step,
                            const std::vector<std::pair<const VarNode*, Expr>>& at, Simplifier& simplifier) {
  auto index_at = [&](int64_t i, int64_t j) {
    std::vector<std::pair<const VarNode*, Expr>> values = at;
    for (auto& [var, value] : values) {
      if (var == major.as<VarNode>()) value = Expr(i);
      if (var == minor.as<VarNode>()) value = Expr(j);
    }
    return simplifier.simplify(substitute(load.index, values));
  };
  Expr first = index_at(0, 0);
  Expr stride = simplifier.simplify(index_at(major_step, 0) - first);
  auto follows = [&](int64_t i, int64_t j, const Expr& distance) {
    return constant_of(simplifier.simplify(index_at(i, j) - first - distance)) == 0;
  };
  bool fits = follows(15 * major_step, 0, stride * Expr(15));
  // Operand a: elements along k adjoin. Operand b: pairs along k adjoin, then columns.
  fits = fits &&
         (major_step == 1 ? follows(0, kDepth - 1, Expr(kDepth - 1))
                          : follows(1, 0, Expr(1)) && follows(0, kColumns - 1, Expr(2 * (kColumns - 1))));
  internal_check(fits, "{}: {} does not lie in memory as tile registers read it", name, load.buffer->name);
  return {load.buffer, first, stride};
}

/// Hints for what lies behind the operands b of a step: those of the next one, as weights are packed. A few
/// between instructions each: asked for all at once they would block the loads of tiles.
static std::vector<Stmt> next_weights(const std::vector<TileSource>& sources, const std::vector<Dot>& dots,
                                      Simplifier& simplifier) {
  constexpr int64_t kLine = 32, kTileElements = kColumns * kDepth;
  std::set<int> used;
  for (const Dot& dot : dots) used.insert(dot.b);
  const TileSource* first = nullptr;
  for (int b : used) {
    const TileSource& source = sources[static_cast<size_t>(b)];
    auto before =
        first ? constant_of(simplifier.simplify(source.index - first->index)) : std::optional<int64_t>(-1);
    if (source.buffer->dtype != DType::kBF16 || !before) return {};
    if (*before < 0) first = &source;
  }
  const int64_t elements = static_cast<int64_t>(used.size()) * kTileElements;
  std::vector<Stmt> lines;
  for (int64_t at = elements; at < 2 * elements; at += kLine)
    lines.push_back(prefetch(first->buffer, simplifier.simplify(first->index + Expr(at)), true));
  return lines;
}

Stmt Lowering::build_tiles(StageState& state, int first_reduce) {
  const std::string& name = state.op().name;
  const auto* root = state.body.as<ReduceNode>();
  auto count = static_cast<int>(state.leaf_vars.size());
  const int first_tile = count - 5;
  internal_check(root && root->reduce == ReduceKind::kSum && !root->condition && state.buffer &&
                     state.buffer->dtype == DType::kF32 && first_reduce <= first_tile && !state.root,
                 "{}: tile registers compute sums in f32 on a CPU, with steps along k around the tiles",
                 name);
  auto extent_of = [&](int leaf) {
    return constant_of(state.leaf_extents[static_cast<size_t>(leaf)]).value_or(0);
  };
  auto var_of = [&](int leaf) { return state.leaf_vars[static_cast<size_t>(leaf)]; };
  const int64_t row_tiles = extent_of(first_tile), column_tiles = extent_of(first_tile + 1);
  internal_check(extent_of(count - 3) == kRows && extent_of(count - 2) == kColumns &&
                     extent_of(count - 1) == kDepth && state.is_reduce_leaf(count - 1) && row_tiles > 0 &&
                     column_tiles > 0 && row_tiles * column_tiles + 2 <= kRegisters,
                 "{}: the five innermost loops must be row tiles, column tiles, {}, {}, {}", name, kRows,
                 kColumns, kDepth);
  if (!state.guards.empty()) {
    internal_error("{}: tiles go beyond what there is: {}", name, to_string(state.guards.front().condition));
  }
  // Steps are the reduction loops directly around the tiles. What reduces around data loops goes back to
  // memory between its iterations.
  int first_step = first_tile;
  while (first_step > first_reduce && state.is_reduce_leaf(first_step - 1)) --first_step;
  std::vector<int> outer, steps;
  Expr begins;  // of the sum
  for (int leaf = first_reduce; leaf < first_tile; ++leaf) {
    (leaf < first_step ? outer : steps).push_back(leaf);
    if (leaf >= first_step || !state.is_reduce_leaf(leaf)) continue;
    Expr first = eq(var_of(leaf), Expr(0));
    begins = begins ? begins && first : first;
  }

  const Expr m = var_of(count - 3), n = var_of(count - 2), k = var_of(count - 1);
  std::vector<Expr> terms;
  collect_terms(root->value, terms);
  std::vector<TileSource> sources;
  std::vector<Dot> dots;
  auto at = [&](int64_t i, int64_t j) {
    return std::vector<std::pair<const VarNode*, Expr>>{{var_of(first_tile).as<VarNode>(), Expr(i)},
                                                        {var_of(first_tile + 1).as<VarNode>(), Expr(j)},
                                                        {m.as<VarNode>(), Expr(0)},
                                                        {n.as<VarNode>(), Expr(0)},
                                                        {k.as<VarNode>(), Expr(0)}};
  };
  auto add_source = [&](const TileSource& source) {
    auto same = [&](const TileSource& s) {
      return s.buffer == source.buffer && structurally_equal(s.index, source.index);
    };
    auto it = std::ranges::find_if(sources, same);
    if (it == sources.end()) it = sources.insert(sources.end(), source);
    return static_cast<int>(it - sources.begin());
  };
  for (const Expr& term : terms) {
    const auto* product = term.as<BinaryNode>();
    internal_check(product && product->op == BinaryOp::kMul, "{}: tile registers sum products", name);
    Expr left = to_loads(state, product->a), right = to_loads(state, product->b);
    auto load_of = [&](const Expr& e) {
      const auto* cast = e.as<CastNode>();
      const auto* load = cast ? cast->a.as<LoadNode>() : nullptr;
      internal_check(load && load->buffer->dtype == DType::kBF16, "{}: {} is no bf16 operand in memory", name,
                     to_string(e));
      return load;
    };
    bool swapped = mentions(right, m);
    const LoadNode *a = load_of(swapped ? right : left), *b = load_of(swapped ? left : right);
    for (int64_t i = 0; i < row_tiles; ++i) {
      for (int64_t jj = 0; jj < column_tiles; ++jj) {
        int64_t j = i % 2 ? column_tiles - 1 - jj : jj;  // each instruction shares an operand with the last
        int from_a = add_source(source_of(name, *a, m, k, 1, at(i, 0), simplifier_));
        int from_b = add_source(source_of(name, *b, k, n, 2, at(0, j), simplifier_));
        dots.push_back({static_cast<int>(i * column_tiles + j), from_a, from_b});
      }
    }
  }
  std::vector<Stmt> zero, resume, step, store;
  const int accumulators = static_cast<int>(row_tiles * column_tiles);
  for (int t = 0; t < accumulators; ++t) zero.push_back(tile_zero(t));
  RegisterFile registers(accumulators, sources, dots);
  const std::vector<Stmt> ahead = next_weights(sources, dots, simplifier_);
  for (size_t i = 0; i < dots.size(); ++i) {
    int a = registers.get(dots[i].a, i, dots[i].b, step);
    int b = registers.get(dots[i].b, i, dots[i].a, step);
    step.push_back(tile_dot(dots[i].accumulator, a, b));
    for (size_t line = i * ahead.size() / dots.size(); line < (i + 1) * ahead.size() / dots.size(); ++line)
      step.push_back(ahead[line]);
  }
  Expr result = store_index(state);
  for (int64_t i = 0; i < row_tiles; ++i) {
    for (int64_t j = 0; j < column_tiles; ++j) {
      Expr first = simplifier_.simplify(substitute(result, at(i, j)));
      auto next = at(i, j);
      next[2].second = Expr(1);
      Expr stride = simplifier_.simplify(substitute(result, next) - first);
      const int tile = static_cast<int>(i * column_tiles + j);
      store.push_back(tile_store(tile, state.buffer, first, stride));
      resume.push_back(tile_load(tile, state.buffer, first, stride));
    }
  }
  Stmt start = block(std::move(zero));
  if (begins) start = if_stmt(begins, start, block(std::move(resume)));
  Stmt nest = block({start, build_loops(state, steps, 0, Purpose::kCompute, true, block(std::move(step))),
                     block(std::move(store))});
  return build_loops(state, outer, 0, Purpose::kCompute, true, nest);
}

}  // namespace gantry
