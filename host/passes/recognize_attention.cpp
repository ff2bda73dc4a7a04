// softmax(scale * Q K^T + biases) V as one node, however it is written: operands behind transpositions,
// slices and reshapes, scaled before or after the product, masks added or chosen.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "host/ops/attention.h"
#include "host/ops/bitcast.h"
#include "host/ops/dense.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"
#include "host/ops/norm.h"
#include "host/ops/repeat.h"
#include "host/passes/attention_matrix.h"
#include "host/passes/canonicalize.h"
#include "host/passes/passes.h"
#include "host/passes/rewriter.h"
#include "host/passes/strided_view.h"

namespace gantry {
namespace {

/// Of an attention (host/ops/attention.h).
constexpr size_t kMostBiases = 2;
/// Fewer queries leave most of a block's lanes unused.
constexpr int64_t kLeastQueries = 8;
/// Where scores stay as they are, among those that a choice puts in their place.
constexpr double kKept = std::numeric_limits<double>::infinity();
/// Scores that are put in the place of others, and what they are scaled by: no product of them is kKept.
constexpr double kMaxChosen = 1e30, kMaxScale = 1e6;

/// A bias added to scores whose leading axes have these extents, or what some of them are replaced by.
struct Bias {
  Value* value = nullptr;        ///< null: a choice
  const Node* choice = nullptr;  ///< where(mask, score, scores) or where(mask, scores, score)
  Shape scores;
  double factor = 1;  ///< of the value: scores are scaled after it
};

/// What is known of an attention while it is followed upwards from the softmax.
struct Match {
  const Node* product = nullptr;
  double scale = 1;
  std::vector<Bias> biases;    ///< the last one first
  std::vector<Shape> leading;  ///< of the scores in all their shapes
};

Shape leading_of(const Shape& shape) {
  return {shape.begin(), shape.end() - 2};
}

bool same_matrix(const Shape& a, const Shape& b) {
  return a.size() >= 2 && b.size() >= 2 && a.back() == b.back() && a[a.size() - 2] == b[b.size() - 2];
}

class AttentionRecognizer {
 public:
  explicit AttentionRecognizer(const Rewriter& rewriter)
      : rewriter_(rewriter), function_(rewriter.function()), policy_(rewriter.context().attention) {}

  void run() {
    for (Node* node : rewriter_.nodes()) {
      const auto* attrs = node->match(nn::softmax);
      if (attrs == nullptr) continue;
      if (attrs->axis != node->result()->type.rank() - 1 || node->result()->type.dtype != DType::kF32)
        continue;
      match(*node);
    }
  }

 private:
  Node* only_user(const Value* value) const { return function_.only_user(value); }

  // --- upwards from the softmax

  bool follow(Value* scores, Match& match) const {
    const Node* node = scores->producer;
    if (node == nullptr || scores->type.rank() < 2) return false;
    match.leading.push_back(leading_of(scores->type.shape));
    const auto* attrs = node->match(op::matmul);
    if (attrs != nullptr) {
      match.product = attrs->form.gemm || attrs->transpose_a ? nullptr : node;
      return match.product != nullptr;
    }
    if (views_elements(*node))
      return same_matrix(scores->type.shape, node->inputs[0]->type.shape) && follow_private(*node, 0, match);
    if (producer_of(scores, op::add) != nullptr) return follow_sum(*node, match);
    if (producer_of(scores, op::where) != nullptr) return follow_choice(*node, match);
    if (producer_of(scores, op::multiply) != nullptr) {
      return follow_scale(*node, 1, 0, false, match) || follow_scale(*node, 0, 1, false, match);
    }
    return producer_of(scores, op::divide) != nullptr && follow_scale(*node, 1, 0, true, match);
  }

  bool follow_private(const Node& node, size_t input, Match& match) const {
    Value* value = node.inputs[input];
    return only_user(value) != nullptr && follow(value, match);
  }

  bool follow_scale(const Node& node, size_t scalar, size_t data, bool divides, Match& match) const {
    const std::optional<double> factor = constant_scalar(node.inputs[scalar]);
    if (!factor || *factor == 0 || !(node.inputs[data]->type == node.result()->type)) return false;
    const double scale = divides ? 1 / *factor : *factor;
    Match deeper = match;
    deeper.scale *= scale;
    if (!follow_private(node, data, deeper)) return false;
    const bool scales_biases = deeper.biases.size() > match.biases.size();
    if (scales_biases && !(scale > 0 && scale <= kMaxScale)) return false;
    for (size_t i = match.biases.size(); i < deeper.biases.size(); ++i) deeper.biases[i].factor *= scale;
    match = deeper;
    return true;
  }

  // Of a sum either operand may be the scores. No more biases than an attention has are looked for: a value
  // that is added to itself, and the sum to itself again, would be followed upwards on each of the ways that
  // there are.
  bool follow_sum(const Node& node, Match& match) const {
    if (match.biases.size() == kMostBiases) return false;
    for (size_t data : {0, 1}) {
      if (!(node.inputs[data]->type == node.result()->type)) continue;
      Match deeper = match;
      deeper.biases.push_back({node.inputs[1 - data], nullptr, leading_of(node.result()->type.shape), 1});
      if (!follow_private(node, data, deeper)) continue;
      match = deeper;
      return true;
    }
    return false;
  }

  // where(mask, score, scores) or where(mask, scores, score): masked positions.
  bool follow_choice(const Node& node, Match& match) const {
    if (match.biases.size() == kMostBiases) return false;
    for (size_t data : {1, 2}) {
      const std::optional<double> score = constant_scalar(node.inputs[3 - data]);
      if (!score || !(*score <= kMaxChosen) || !(node.inputs[data]->type == node.result()->type)) continue;
      Match deeper = match;
      deeper.biases.push_back({nullptr, &node, leading_of(node.result()->type.shape), 1});
      if (!follow_private(node, data, deeper)) continue;
      match = deeper;
      return true;
    }
    return false;
  }

  // --- all of it

  void match(const Node& softmax) {
    Match found;
    if (only_user(softmax.inputs[0]) == nullptr || !follow(softmax.inputs[0], found)) return;
    // Down to the product with the values.
    Node* user = only_user(softmax.result());
    Value* weights = softmax.result();
    while (user != nullptr && views_elements(*user) &&
           same_matrix(user->result()->type.shape, weights->type.shape)) {
      weights = user->result();
      user = only_user(weights);
    }
    const auto* attrs = user != nullptr ? user->match(op::matmul) : nullptr;
    if (attrs == nullptr || attrs->form.gemm || attrs->transpose_a || attrs->transpose_b) return;
    if (user->inputs[0] != weights || user->inputs[1] == weights) return;
    found.leading.push_back(leading_of(user->result()->type.shape));
    replace(found, *user);
  }

  Value* scalar(double value) {
    const auto rounded = static_cast<float>(value);
    return function_.add_constant("score", make_constant({DType::kF32, {}}, &rounded));
  }

  /// Biases and masks are broadcast anyway, but where sizes decide along which axes.
  static Value* unrepeated(Value* value) {
    for (const Node* node; (node = producer_of(value, op::broadcast_to)) != nullptr;
         value = node->inputs[0]) {
      if (ops::repeats_by_size(node->inputs[0]->type.shape, *node->match(op::broadcast_to))) break;
    }
    return value;
  }

  /// The bias as a value of rank >= 2; queries follow each other in memory where it has a row for each.
  Value* bias_value(const Bias& bias, const Node& before, bool& transposed) {
    Value* value = unrepeated(bias.value);
    if (const Node* choice = bias.choice) {
      const std::optional<double> if_set = constant_scalar(choice->inputs[1]);
      Value *kept = scalar(kKept),
            *score = scalar(bias.factor * (if_set ? *if_set : *constant_scalar(choice->inputs[2])));
      value =
          rewriter_.before(before, choice->origin)(op::where, {unrepeated(choice->inputs[0]), if_set ? score : kept, if_set ? kept : score});
    } else if (bias.factor != 1) {
      value = rewriter_.before(before)(op::multiply, {value, scalar(bias.factor)});
    }
    if (value->type.rank() < 2) {
      Shape shape(static_cast<size_t>(2 - value->type.rank()), Dim(1));
      shape.insert(shape.end(), value->type.shape.begin(), value->type.shape.end());
      value = rewriter_.before(before).reshape(value, shape);
    }
    const auto rank = static_cast<size_t>(value->type.rank());
    const Shape& shape = value->type.shape;
    transposed = !(shape[rank - 1] == Dim(1)) && !(shape[rank - 2] == Dim(1));
    if (!transposed) return value;
    auto attrs = std::make_shared<TransposeAttrs>();
    for (size_t i = 0; i < rank; ++i) attrs->axes.push_back(static_cast<int64_t>(i));
    std::swap(attrs->axes[rank - 1], attrs->axes[rank - 2]);
    return rewriter_.before(before)(op::transpose, {value}, attrs);
  }

  /// Attributes of the attention but for its biases and result; settles where the operands are read.
  std::shared_ptr<AttentionAttrs> describe(const Match& found,
                                           std::array<AttentionMatrix, 3>& operands) const {
    auto& [q, k, v] = operands;
    std::vector<Shape> leading = found.leading;
    for (const AttentionMatrix& operand : operands) {
      const auto extents = operand.leading();
      if (!extents || operand.view.base->type.dtype != DType::kF32) return nullptr;
      leading.push_back(*extents);
    }
    auto attrs = std::make_shared<AttentionAttrs>();
    attrs->batch = finest_batch(leading);
    attrs->queries = q.rows();
    attrs->keys = v.rows();
    attrs->depth = q.features().constant().value_or(0);
    attrs->width = v.features().constant().value_or(0);
    for (int64_t features : {attrs->depth, attrs->width})
      if (features < 1 || features > kMostAttentionFeatures) return nullptr;
    if (attrs->queries.is_constant() && attrs->queries.value() < kLeastQueries) return nullptr;
    if (attrs->keys.is_constant() && attrs->keys.value() < 1) return nullptr;
    attrs->form.lanes = policy_.lanes;
    attrs->form.registers = policy_.registers;
    const auto query = q.place(attrs->batch), key = k.place(attrs->batch), value = v.place(attrs->batch);
    if (!query || !key || !value) return nullptr;
    attrs->query = *query;
    attrs->key = *key;
    attrs->value = *value;
    attrs->scale = found.scale * q.view.factor * k.view.factor;
    return attrs;
  }

  /// Applies a bias behind those in `inputs`; false where it can't be read.
  bool apply(const Bias& bias, const Node& before, AttentionAttrs& attrs, std::vector<Value*>& inputs) {
    bool transposed = false;
    Value* other = bias_value(bias, before, transposed);
    if (other->type.dtype != DType::kF32) return false;
    // The transposition itself is wanted in memory.
    StridedView view = transposed ? contiguous_view(other) : strided_view(other);
    auto strides = place_bias(view, bias.scores, attrs.batch, transposed);
    if (!strides) {
      view = strided_view(other, {.split_axes = false});
      strides = place_bias(view, bias.scores, attrs.batch, transposed);
    }
    if (!strides) return false;
    const bool first = inputs.size() == 3;
    (first ? attrs.bias : attrs.bias2) = *strides;
    (first ? attrs.bias_chooses : attrs.bias2_chooses) = bias.choice != nullptr;
    inputs.push_back(view.base);
    return true;
  }

  void replace(const Match& found, Node& product) {
    const Shape q_leading = leading_of(found.product->result()->type.shape);
    const Shape o_leading = leading_of(product.result()->type.shape);
    const size_t key_row = found.product->attrs_as<MatmulAttrs>().transpose_b ? 1 : 0;
    std::array<AttentionMatrix, 3> operands{
        AttentionMatrix(found.product->inputs[0], 1, 0, q_leading, true),
        AttentionMatrix(found.product->inputs[1], key_row, 1 - key_row, q_leading, true),
        AttentionMatrix(product.inputs[1], 1, 0, o_leading, false)};
    const auto attrs = describe(found, operands);
    if (!attrs) return;
    Node* last = &product;
    const StridedView result = result_view(last);
    auto stored = batch_strides(result, o_leading, attrs->batch);
    if (!stored || !(result.stride(result.rank() - 1) == Dim(1))) return;
    stored->insert(stored->begin(), result.offset);
    stored->push_back(result.stride(result.rank() - 2).value());
    attrs->result = *stored;
    attrs->shape = last->result()->type.shape;
    std::vector<Value*> inputs;
    for (const AttentionMatrix& operand : operands) inputs.push_back(operand.view.base);
    for (auto bias = found.biases.rbegin(); bias != found.biases.rend(); ++bias)
      if (!apply(*bias, *last, *attrs, inputs)) return;
    std::vector<std::string> origin = found.product->origin;
    origin.insert(origin.end(), product.origin.begin(), product.origin.end());
    rewriter_.replace(last->result(), rewriter_.before(*last, origin)(nn::attention, inputs, attrs));
  }

  /// Where the elements of the product go: to the result of the transposition that alone follows it, if one
  /// does.
  StridedView result_view(Node*& last) const {
    Node* user = only_user(last->result());
    const auto* attrs = user != nullptr ? user->match(op::transpose) : nullptr;
    if (attrs == nullptr || attrs->axes.back() != last->result()->type.rank() - 1)
      return contiguous_view(last->result());
    const StridedView stored = contiguous_view(user->result());
    StridedView view = stored;
    for (size_t i = 0; i < attrs->axes.size(); ++i)
      view.axes[static_cast<size_t>(attrs->axes[i])] = stored.axes[i];
    last = user;
    return view;
  }

  const Rewriter& rewriter_;
  Function& function_;
  AttentionPolicy policy_;
};

}  // namespace

void recognize_attention(Graph& graph, PassContext& context) {
  AttentionRecognizer(Rewriter(graph.main, context)).run();
  remove_dead_nodes(graph.main);
}

extern const Pass recognize_attention_pass{
    .name = "recognize_attention",
    .purpose = "on CPUs scores, softmax and values of attention become one op",
    .when = for_cpus,
    .run = recognize_attention,
};

}  // namespace gantry
