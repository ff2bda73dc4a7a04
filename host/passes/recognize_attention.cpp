// softmax(scale * Q K^T + biases) V as one node, however it is written: operands behind transpositions,
// slices and reshapes, scaled before or after the product, masks added or chosen.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "host/ops/attention.h"
#include "host/ops/dense.h"
#include "host/ops/movement.h"
#include "host/ops/norm.h"
#include "host/ops/op.h"
#include "host/passes/canonicalize.h"
#include "host/passes/passes.h"
#include "host/passes/strided_view.h"

namespace gantry {
namespace {

/// Fewer queries leave most of a block's lanes unused.
constexpr int64_t kLeastQueries = 8;
constexpr int64_t kMaxFeatures = 256;
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

class Recognizer {
 public:
  Recognizer(Function& function, const AttentionPolicy& policy)
      : function_(function), policy_(policy), users_(function.users()) {
    outputs_.insert(function.outputs.begin(), function.outputs.end());
  }

  void run() {
    const std::vector<Node*> nodes = function_.nodes();
    for (Node* node : nodes) {
      const auto* attrs = dynamic_cast<const SoftmaxAttrs*>(node->attrs.get());
      if (attrs == nullptr || producer_of(node->result(), "nn.softmax") == nullptr) continue;
      if (attrs->axis != node->result()->type.rank() - 1 || node->result()->type.dtype != DType::kF32)
        continue;
      match(*node);
    }
  }

 private:
  Node* only_user(const Value* value) const {
    const auto found = users_.find(value);
    const bool alone = found != users_.end() && found->second.size() == 1 && outputs_.count(value) == 0;
    return alone ? found->second.front() : nullptr;
  }

  // --- upwards from the softmax

  bool follow(Value* scores, Match& match) const {
    const Node* node = scores->producer;
    if (node == nullptr || scores->type.rank() < 2) return false;
    match.leading.push_back(leading_of(scores->type.shape));
    const auto* attrs = dynamic_cast<const MatmulAttrs*>(node->attrs.get());
    if (attrs != nullptr) {
      match.product = attrs->gemm || attrs->transpose_a ? nullptr : node;
      return match.product != nullptr;
    }
    if (node->op->is_view && node->inputs.size() == 1)
      return same_matrix(scores->type.shape, node->inputs[0]->type.shape) && follow_private(*node, 0, match);
    if (producer_of(scores, "add") != nullptr) return follow_sum(*node, match);
    if (producer_of(scores, "where") != nullptr) return follow_choice(*node, match);
    if (producer_of(scores, "multiply") != nullptr) {
      return follow_scale(*node, 1, 0, false, match) || follow_scale(*node, 0, 1, false, match);
    }
    return producer_of(scores, "divide") != nullptr && follow_scale(*node, 1, 0, true, match);
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

  bool follow_sum(const Node& node, Match& match) const {
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
    if (found.biases.size() > 2) return;
    // Down to the product with the values.
    Node* user = only_user(softmax.result());
    Value* weights = softmax.result();
    while (user != nullptr && user->op->is_view &&
           same_matrix(user->result()->type.shape, weights->type.shape)) {
      weights = user->result();
      user = only_user(weights);
    }
    const auto* attrs = user != nullptr ? dynamic_cast<const MatmulAttrs*>(user->attrs.get()) : nullptr;
    if (attrs == nullptr || attrs->gemm || attrs->transpose_a || attrs->transpose_b) return;
    if (user->inputs[0] != weights || user->inputs[1] == weights) return;
    found.leading.push_back(leading_of(user->result()->type.shape));
    replace(found, *user);
  }

  /// The finest of the batch axes in all shapes.
  static Shape finest(const std::vector<Shape>& all) {
    Shape best;
    for (const Shape& shape : all) {
      Shape trimmed;
      std::copy_if(shape.begin(), shape.end(), std::back_inserter(trimmed),
                   [](const Dim& d) { return !(d == Dim(1)); });
      if (trimmed.size() > best.size()) best = trimmed;
    }
    return best;
  }

  /// Strides of a matrix operand along the batch axes; `scores`: the leading axes that it is broadcast to.
  static std::optional<Shape> batch_strides(const StridedView& view, size_t matrix_axes, const Shape& scores,
                                            const Shape& batch) {
    const size_t own = view.extents.size() - matrix_axes;
    if (own > scores.size()) return std::nullopt;
    Shape strides(scores.size(), Dim(0));
    for (size_t i = 0; i < own; ++i) {
      const size_t at = scores.size() - own + i;
      const bool same = view.extents[i] == scores[at];
      if (!same && !(view.extents[i] == Dim(1))) return std::nullopt;
      if (same && !(view.extents[i] == Dim(1))) strides[at] = view.strides[i];
    }
    return reshape_strides(scores, strides, batch);
  }

  static std::optional<Shape> operand(const StridedView& view, size_t row_axis, size_t feature_axis,
                                      const Shape& scores, const Shape& batch) {
    if (!(view.strides[feature_axis] == Dim(1))) return std::nullopt;
    auto strides = batch_strides(view, 2, scores, batch);
    if (!strides) return std::nullopt;
    strides->insert(strides->begin(), view.offset);
    strides->push_back(view.strides[row_axis]);
    return strides;
  }

  std::optional<Shape> bias_operand(const StridedView& view, const Shape& scores, const Shape& batch,
                                    bool transposed) const {
    auto strides = batch_strides(view, 2, scores, batch);
    if (!strides) return std::nullopt;
    const size_t rank = view.extents.size();
    auto stride_of = [&](size_t axis) { return view.extents[axis] == Dim(1) ? Dim(0) : view.strides[axis]; };
    strides->insert(strides->begin(), view.offset);
    strides->push_back(stride_of(transposed ? rank - 1 : rank - 2));
    strides->push_back(stride_of(transposed ? rank - 2 : rank - 1));
    return strides;
  }

  Value* add(const Node& before, std::string_view op, std::shared_ptr<const Attrs> attrs,
             std::vector<Value*> inputs, const std::vector<std::string>& origin) {
    return infer_and_add(function_, op, std::move(attrs), std::move(inputs), origin, &before)->result();
  }

  Value* scalar(double value) {
    const auto rounded = static_cast<float>(value);
    return function_.add_constant("score", make_constant({DType::kF32, {}}, &rounded));
  }

  /// The bias as a value of rank >= 2; queries follow each other in memory where it has a row for each.
  Value* bias_value(const Bias& bias, const Node& before, bool& transposed) {
    Value* value = bias.value;
    if (const Node* choice = bias.choice) {
      const std::optional<double> if_set = constant_scalar(choice->inputs[1]);
      Value *kept = scalar(kKept),
            *score = scalar(bias.factor * (if_set ? *if_set : *constant_scalar(choice->inputs[2])));
      value = add(before, "where", nullptr, {choice->inputs[0], if_set ? score : kept, if_set ? kept : score},
                  choice->origin);
    } else if (bias.factor != 1) {
      value = add(before, "multiply", nullptr, {value, scalar(bias.factor)}, before.origin);
    }
    if (value->type.rank() < 2) {
      Shape shape(static_cast<size_t>(2 - value->type.rank()), Dim(1));
      shape.insert(shape.end(), value->type.shape.begin(), value->type.shape.end());
      auto attrs = std::make_shared<ReshapeAttrs>();
      attrs->shape = shape;
      value = add(before, "reshape", attrs, {value}, before.origin);
    }
    const auto rank = static_cast<size_t>(value->type.rank());
    const Shape& shape = value->type.shape;
    transposed = !(shape[rank - 1] == Dim(1)) && !(shape[rank - 2] == Dim(1));
    if (!transposed) return value;
    auto attrs = std::make_shared<TransposeAttrs>();
    for (size_t i = 0; i < rank; ++i) attrs->axes.push_back(static_cast<int64_t>(i));
    std::swap(attrs->axes[rank - 1], attrs->axes[rank - 2]);
    return add(before, "transpose", attrs, {value}, before.origin);
  }

  void replace(const Match& found, Node& product) {
    const Shape batch = finest(found.leading);
    const Shape q_leading = leading_of(found.product->result()->type.shape);
    const Shape o_leading = leading_of(product.result()->type.shape);
    const bool key_rows = found.product->attrs_as<MatmulAttrs>().transpose_b;
    StridedView q = strided_view(found.product->inputs[0], true),
                k = strided_view(found.product->inputs[1], true);
    StridedView v = strided_view(product.inputs[1]);
    for (const StridedView* view : {&q, &k, &v}) {
      if (view->base->type.dtype != DType::kF32 || view->extents.size() < 2) return;
    }
    const size_t qr = q.extents.size(), kr = k.extents.size(), vr = v.extents.size();
    auto attrs = std::make_shared<AttentionAttrs>();
    attrs->batch = batch;
    attrs->queries = q.extents[qr - 2];
    attrs->keys = v.extents[vr - 2];
    const auto depth = q.extents[qr - 1].constant(), width = v.extents[vr - 1].constant();
    if (!depth || !width || *depth > kMaxFeatures || *width > kMaxFeatures || *depth < 1 || *width < 1)
      return;
    if (attrs->queries.is_constant() && attrs->queries.value() < kLeastQueries) return;
    if (attrs->keys.is_constant() && attrs->keys.value() < 1) return;
    attrs->depth = *depth;
    attrs->width = *width;
    attrs->scale = found.scale * q.factor * k.factor;
    attrs->lanes = policy_.lanes;
    attrs->registers = policy_.registers;
    const auto query = operand(q, qr - 2, qr - 1, q_leading, batch);
    const auto key = operand(k, key_rows ? kr - 2 : kr - 1, key_rows ? kr - 1 : kr - 2, q_leading, batch);
    const auto value = operand(v, vr - 2, vr - 1, o_leading, batch);
    if (!query || !key || !value) return;
    attrs->query = *query;
    attrs->key = *key;
    attrs->value = *value;

    Node* last = &product;
    StridedView result = result_view(last);
    const size_t rr = result.extents.size();
    const auto stored = operand(result, rr - 2, rr - 1, o_leading, batch);
    if (!stored) return;
    attrs->result = *stored;
    attrs->shape = last->result()->type.shape;
    std::vector<Value*> inputs{q.base, k.base, v.base};
    for (auto bias = found.biases.rbegin(); bias != found.biases.rend(); ++bias) {
      bool transposed = false;
      Value* other = bias_value(*bias, *last, transposed);
      if (other->type.dtype != DType::kF32) return;
      StridedView view = strided_view(other);
      // The transposition itself is wanted in memory.
      if (transposed) view = contiguous_view(other);
      const auto strides = bias_operand(view, bias->scores, batch, transposed);
      if (!strides) return;
      const bool first = inputs.size() == 3;
      (first ? attrs->bias : attrs->bias2) = *strides;
      (first ? attrs->bias_chooses : attrs->bias2_chooses) = bias->choice != nullptr;
      inputs.push_back(view.base);
    }
    std::vector<std::string> origin = found.product->origin;
    origin.insert(origin.end(), product.origin.begin(), product.origin.end());
    Node* attention = infer_and_add(function_, "nn.attention", attrs, inputs, origin, last);
    function_.replace_uses(last->result(), attention->result());
  }

  /// Where the elements of the product go: to the result of the transposition that alone follows it, if one
  /// does.
  StridedView result_view(Node*& last) const {
    Node* user = only_user(last->result());
    const auto* attrs = user != nullptr ? dynamic_cast<const TransposeAttrs*>(user->attrs.get()) : nullptr;
    if (attrs == nullptr || attrs->axes.back() != last->result()->type.rank() - 1)
      return contiguous_view(last->result());
    StridedView stored = contiguous_view(user->result()), view = stored;
    for (size_t i = 0; i < attrs->axes.size(); ++i) {
      view.extents[static_cast<size_t>(attrs->axes[i])] = stored.extents[i];
      view.strides[static_cast<size_t>(attrs->axes[i])] = stored.strides[i];
    }
    last = user;
    return view;
  }

  Function& function_;
  AttentionPolicy policy_;
  std::map<const Value*, std::vector<Node*>> users_;
  std::set<const Value*> outputs_;
};

}  // namespace

void recognize_attention(Graph& graph, const AttentionPolicy& policy) {
  Recognizer(graph.main, policy).run();
  dead_code(graph);
}

}  // namespace gantry
