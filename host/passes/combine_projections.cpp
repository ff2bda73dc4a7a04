#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "host/ops/attention.h"
#include "host/ops/dense.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"
#include "host/ops/tiles.h"
#include "host/passes/canonicalize.h"
#include "host/passes/passes.h"
#include "host/passes/rewriter.h"

namespace gantry {
namespace {

constexpr size_t kOperands = 3;  // of nn.attention: query, key, value

/// A product on tiles with constant weights, the bias that follows it if one does, and the operands of the
/// attention that it makes.
struct Projection {
  const Node* dense = nullptr;
  Value* result = nullptr;
  Value* weight = nullptr;  ///< before it was packed, (K, units)
  Value* bias = nullptr;
  std::vector<size_t> operands;

  int64_t units() const { return dense->attrs_as<DenseAttrs>().units; }
};

/// Where an operand lies among columns [column, column + units) of rows of `total` elements, when it was
/// alone in rows of `units`; nothing if its elements do not stay within a row.
std::optional<Shape> moved(const Shape& operand, const Shape& extents, int64_t features, int64_t units,
                           int64_t column, int64_t total) {
  Shape result;
  int64_t last = features;  // one past the last column that is read
  for (size_t i = 0; i < operand.size(); ++i) {
    const Dim in_row = mod(operand[i], units);
    if (!in_row.is_constant()) return std::nullopt;
    const int64_t columns = in_row.value();
    if (i == 0) {
      last += columns;
    } else if (columns != 0) {
      const Dim& extent = extents[i - 1];
      if (!(operand[i] == in_row) || !extent.is_constant()) return std::nullopt;
      last += (extent.value() - 1) * columns;
    }
    result.push_back(floordiv(operand[i], units) * total + in_row);
  }
  if (last > units) return std::nullopt;
  result[0] = result[0] + column;
  return result;
}

class ProjectionCombiner {
 public:
  explicit ProjectionCombiner(const Rewriter& rewriter) : rewriter_(rewriter), function_(rewriter.function()) {}

  void run() {
    for (const Node* node : rewriter_.nodes()) {
      if (node->is(nn::attention)) combine(*node);
    }
  }

 private:
  bool used_only_by(const Value* value, const Node& user) const {
    return function_.only_user(value) == &user;
  }

  std::optional<Projection> match(Value* value, const Node& attention) const {
    if (!used_only_by(value, attention)) return std::nullopt;
    Projection found;
    found.result = value;
    const Node* node = value->producer;
    if (const Node* sum = producer_of(value, op::add)) {
      const size_t at = sum->inputs[0]->is_constant() ? 0 : 1;
      found.bias = sum->inputs[at];
      node = sum->inputs[1 - at]->producer;
      if (node == nullptr || !found.bias->is_constant() || !used_only_by(node->result(), *sum))
        return std::nullopt;
    }
    const auto* attrs = node ? node->match(nn::dense) : nullptr;
    if (attrs == nullptr || !attrs->form.on_tiles()) return std::nullopt;
    found.dense = node;
    if (found.bias && !(found.bias->type.shape == Shape{attrs->units})) return std::nullopt;
    const Node* packed = producer_of(node->inputs[1], nn::tile_weight);
    if (packed == nullptr || !packed->inputs[0]->is_constant()) return std::nullopt;
    found.weight = packed->inputs[0];
    return found;
  }

  /// Those of one attention that share the data, for each data; those that do not fit are left out.
  std::vector<std::vector<Projection>> sharing(const Node& attention) const {
    std::vector<std::vector<Projection>> groups;
    for (size_t i = 0; i < kOperands; ++i) {
      const std::optional<Projection> found = match(attention.inputs[i], attention);
      if (!found) continue;
      auto group = std::ranges::find_if(groups, [&](const auto& other) {
        return other[0].dense->inputs[0] == found->dense->inputs[0] &&
               other[0].dense->template attrs_as<DenseAttrs>().form.tile_parts ==
                   found->dense->template attrs_as<DenseAttrs>().form.tile_parts;
      });
      if (group == groups.end()) group = groups.insert(group, std::vector<Projection>());
      auto same = std::ranges::find(*group, found->result, &Projection::result);
      if (same == group->end()) same = group->insert(same, *found);
      same->operands.push_back(i);
    }
    return groups;
  }

  Value* zeros(int64_t count) {
    const TensorType type{DType::kF32, {count}};
    std::byte* bytes = nullptr;
    auto data = allocate_constant(type, &bytes);
    std::fill(bytes, bytes + data->size, std::byte{0});
    return function_.add_constant("zeros", data);
  }

  /// One product, with biases added, in place of all of them.
  Value* joined(const std::vector<Projection>& group, int64_t total, const Node& before) {
    std::vector<Value*> weights, biases;
    std::vector<std::string> origin;
    bool biased = false;
    for (const Projection& projection : group) {
      weights.push_back(projection.weight);
      biases.push_back(projection.bias ? projection.bias : zeros(projection.units()));
      biased = biased || projection.bias;
      const auto& names = projection.dense->origin;
      origin.insert(origin.end(), names.begin(), names.end());
    }
    auto side_by_side = [&](const std::vector<Value*>& parts, int64_t axis) {
      auto attrs = std::make_shared<AxisAttrs>();
      attrs->axis = axis;
      return rewriter_.before(before, origin)(op::concatenate, parts, attrs);
    };
    const Node& first = *group[0].dense;
    auto dense = std::make_shared<DenseAttrs>(first.attrs_as<DenseAttrs>());
    dense->units = total;
    auto packing = std::make_shared<TileWeightAttrs>(
        producer_of(first.inputs[1], nn::tile_weight)->attrs_as<TileWeightAttrs>());
    packing->column_tiles = tile_columns(packing->unit, total);
    Value* packed = rewriter_.before(before, origin)(nn::tile_weight, {side_by_side(weights, 1)}, packing);
    Value* y = rewriter_.before(before, origin)(nn::dense, {first.inputs[0], packed}, dense);
    return biased ? rewriter_.before(before, origin)(op::add, {y, side_by_side(biases, 0)}) : y;
  }

  /// The operand's place in `attrs` (mutable), the extents of its axes, and its features.
  struct Place {
    Shape* operand;
    Shape extents;
    int64_t features;
  };
  static Place place_of(AttentionAttrs& attrs, size_t operand) {
    Place place{operand == 0   ? &attrs.query
                : operand == 1 ? &attrs.key
                               : &attrs.value,
                attrs.batch, operand == 2 ? attrs.width : attrs.depth};
    place.extents.push_back(operand == 0 ? attrs.queries : attrs.keys);
    return place;
  }

  void combine(const Node& attention) {
    auto attrs = std::make_shared<AttentionAttrs>(attention.attrs_as<AttentionAttrs>());
    std::vector<Value*> inputs = attention.inputs;
    bool changed = false;
    for (const auto& group : sharing(attention)) {
      if (group.size() < 2) continue;
      int64_t total = 0, column = 0;
      for (const Projection& projection : group) total += projection.units();
      AttentionAttrs trial = *attrs;
      bool fits = true;
      for (const Projection& projection : group) {
        for (size_t operand : projection.operands) {
          const Place place = place_of(trial, operand);
          const auto at =
              moved(*place.operand, place.extents, place.features, projection.units(), column, total);
          fits = fits && at.has_value();
          if (at) *place.operand = *at;
        }
        column += projection.units();
      }
      if (!fits) continue;
      *attrs = trial;
      Value* y = joined(group, total, attention);
      for (const Projection& projection : group)
        for (size_t operand : projection.operands) inputs[operand] = y;
      changed = true;
    }
    if (!changed) return;
    rewriter_.replace(attention.result(), rewriter_.before(attention)(nn::attention, inputs, attrs));
  }

  const Rewriter& rewriter_;
  Function& function_;
};

}  // namespace

void combine_projections(Graph& graph, PassContext& context) {
  ProjectionCombiner(Rewriter(graph.main, context)).run();
}

extern const Pass combine_projections_pass{
    .name = "combine_projections",
    .purpose = "queries, keys and values become one product on tile registers",
    .after = {"recognize_attention", "alter_layout"},
    .run = combine_projections,
};

}  // namespace gantry
