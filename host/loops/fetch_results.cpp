// Hints for where a product on tile registers will put its results, and what is added to them there.
//
// A store to a line that is in no cache of this core waits for the line first, and the stores of a block come
// all at once, behind its products. While these are computed there is time to fetch the lines. Lines of large
// images of few channels have mostly been displaced since their memory was last used, or were written by
// another core.
#include <optional>

#include "host/loops/tile_plan.h"
#include "host/support/divide.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

// Where weights are more than so many times the results, the way from memory is theirs.
constexpr int64_t kWeightsToResults = 2;

using Values = std::vector<std::pair<const VarNode*, Expr>>;

/// Elements of a buffer; of symbolic dimensions, the fewest.
std::optional<int64_t> least_elements(const Buffer& buffer, Simplifier& simplifier) {
  Values ones;
  walk(buffer->element_count, [&](const Expr& e) {
    if (const auto* var = e.as<VarNode>()) ones.emplace_back(var, Expr(1));
  });
  return constant_of(simplifier.simplify(substitute(buffer->element_count, ones)));
}

/// A line for each vector of a block.
struct Wanted {
  Buffer buffer;
  Expr index;
  Fetch fetch;
};

/// The steps of a product: which one, of how many.
struct Steps {
  Expr position = Expr(0);
  int64_t count = 1;
};

std::optional<Steps> steps_of(const StageState& product, const TilePlan& plan) {
  Steps steps;
  for (size_t leaf = 0; leaf < static_cast<size_t>(plan.first_tile); ++leaf) {
    const auto extent = constant_of(product.leaf_extents[leaf]);
    if (!extent) return {};
    steps.position = steps.position * Expr(*extent) + product.leaf_vars[leaf];
    steps.count *= *extent;
  }
  return steps;
}

/// The loops of the stage that reads a product, inside of where it is computed.
class BlockLoops {
 public:
  BlockLoops(const StageState& owner, int first) : owner_(owner), first_(first) {}

  /// Vectors of a block; none if their number is not known.
  std::optional<int64_t> vectors() const {
    int64_t vectors = 1;
    for (int leaf = first_; leaf < end(); ++leaf) {
      const auto extent = constant_of(owner_.leaf_extents[static_cast<size_t>(leaf)]);
      if (!extent) return {};
      if (!is_vector(leaf)) vectors *= *extent;
    }
    return vectors;
  }
  /// The loops' variables at the first element of a vector.
  Values at(Expr vector) const {
    Values values;
    for (int leaf = end() - 1; leaf >= first_; --leaf) {
      const auto i = static_cast<size_t>(leaf);
      const VarNode* var = owner_.leaf_vars[i].as<VarNode>();
      if (is_vector(leaf)) {
        values.emplace_back(var, Expr(0));
        continue;
      }
      values.emplace_back(var, leaf == first_ ? vector : mod(vector, owner_.leaf_extents[i]));
      vector = floordiv(vector, owner_.leaf_extents[i]);
    }
    return values;
  }
  /// Another element for every one of the block.
  bool choose(const Expr& index) const {
    for (int leaf = first_; leaf < end(); ++leaf) {
      const auto i = static_cast<size_t>(leaf);
      if (constant_of(owner_.leaf_extents[i]) != 1 && !mentions(index, owner_.leaf_vars[i])) return false;
    }
    return true;
  }

 private:
  int end() const { return static_cast<int>(owner_.leaf_vars.size()); }
  bool is_vector(int leaf) const { return owner_.loop_kind(leaf) == LoopKind::kVectorized; }

  const StageState& owner_;
  int first_;
};

}  // namespace

/// The hints of one step: its share of the lines of the block.
std::vector<Stmt> NestBuilder::fetch_results(const StageState& state, const TilePlan& plan) {
  const auto found = program_.by_stage.find(state.stage->attachment().consumer());
  if (!plan.wants_hints() || found == program_.by_stage.end()) return {};
  const StageState& owner = *found->second;
  if (!owner.buffer || !owner.whole_buffer || plan.dots.empty()) return {};
  const Buffer& weights = plan.sources[static_cast<size_t>(plan.dots.front().b)].buffer;
  const auto results = least_elements(owner.buffer, simplifier_),
             weight_elements = least_elements(weights, simplifier_);
  if (!results || !weight_elements ||
      *weight_elements * byte_width(weights->dtype) >
          kWeightsToResults * *results * byte_width(owner.buffer->dtype))
    return {};
  const BlockLoops block(owner, owner.leaf_index(state.stage->attachment().axis().get()) + 1);
  const auto vectors = block.vectors();
  const auto steps = steps_of(state, plan);
  if (!vectors || !steps) return {};

  std::vector<Wanted> lines;
  walk(to_loads(owner, owner.body), [&](const Expr& e) {
    const auto* load = e.as<LoadNode>();
    if (load && load->buffer != state.buffer && block.choose(load->index))
      lines.push_back({load->buffer, load->index, Fetch::kSecondLevel});
  });
  lines.push_back({owner.buffer, store_index(owner), Fetch::kWrite});
  const int64_t share = ceil_div(*vectors, steps->count);
  std::vector<Stmt> hints;
  for (int64_t i = 0; i < share; ++i) {
    const Values at = block.at(steps->position * Expr(share) + Expr(i));
    for (const Wanted& line : lines)
      hints.push_back(prefetch(line.buffer, simplifier_.simplify(substitute(line.index, at)), line.fetch));
  }
  return hints;
}

}  // namespace gantry
