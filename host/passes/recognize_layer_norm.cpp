// Layer normalisation in steps, as exporters wrote it before ONNX had an op for it:
//   d = x - mean(x);  y = d / sqrt(mean(d * d) + epsilon) * scale + bias
// or with a product with the root's reciprocal for the quotient, and with the root as the power by a half.
#include <algorithm>
#include <optional>
#include <set>

#include "host/ops/elementwise.h"
#include "host/ops/norm.h"
#include "host/ops/reduce.h"
#include "host/passes/canonicalize.h"
#include "host/passes/rewriter.h"
#include "host/passes/strided_view.h"

namespace gantry {
namespace {

struct LayerNorm {
  Value* data = nullptr;
  int64_t axis = 0;
  double epsilon = 0;
  std::set<const Node*> inside;  ///< the nodes replaced, but for the last
};

/// First of the trailing axes that the reduction is over, if it is over such and keeps them.
std::optional<int64_t> trailing_axis(const Node& mean) {
  const auto& attrs = mean.attrs_as<ReduceAttrs>();
  const int64_t rank = mean.inputs[0]->type.rank();
  if (!attrs.keepdims || attrs.axes.empty()) return std::nullopt;
  for (size_t i = 0; i < attrs.axes.size(); ++i) {
    if (attrs.axes[attrs.axes.size() - 1 - i] != rank - 1 - static_cast<int64_t>(i)) return std::nullopt;
  }
  return attrs.axes.front();
}

class LayerNormRecognizer {
 public:
  explicit LayerNormRecognizer(const Rewriter& rewriter) : rewriter_(rewriter) {}

  void run() {
    for (Node* node : rewriter_.nodes()) {
      if (std::optional<LayerNorm> found = match(*node)) replace(*node, *found);
    }
  }

 private:
  // d = x - mean(x)
  std::optional<LayerNorm> match_deviation(const Node& difference) const {
    const Node* mean = producer_of(difference.inputs[1], op::mean);
    if (mean == nullptr || mean->inputs[0] != difference.inputs[0]) return std::nullopt;
    const auto axis = trailing_axis(*mean);
    if (!axis) return std::nullopt;
    LayerNorm found;
    found.data = difference.inputs[0];
    found.axis = *axis;
    found.inside = {&difference, mean};
    return found;
  }

  bool is_square_of(const Value* value, const Value* d) const {
    if (const Node* product = producer_of(value, op::multiply))
      return product->inputs[0] == d && product->inputs[1] == d;
    const Node* power = producer_of(value, op::power);
    return power != nullptr && power->inputs[0] == d && constant_scalar(power->inputs[1]) == 2.0;
  }

  /// A square root, also as a power.
  static const Node* root_of(const Value* value) {
    if (const Node* root = producer_of(value, op::sqrt)) return root;
    const Node* power = producer_of(value, op::power);
    return power != nullptr && constant_scalar(power->inputs[1]) == 0.5 ? power : nullptr;
  }

  /// d, sqrt(…) and, where the quotient is written as a product, the reciprocal between them.
  struct Quotient {
    Value* d = nullptr;
    const Node *root = nullptr, *reciprocal = nullptr;
  };
  static Quotient quotient_by_root(const Node& node) {
    if (node.is(op::divide)) return {node.inputs[0], root_of(node.inputs[1])};
    if (!node.is(op::multiply)) return {};
    for (size_t i : {0, 1}) {
      const Node* reciprocal = producer_of(node.inputs[i], op::reciprocal);
      if (reciprocal == nullptr) continue;
      return {node.inputs[1 - i], root_of(reciprocal->inputs[0]), reciprocal};
    }
    return {};
  }

  // d / sqrt(mean(d * d) + epsilon)
  std::optional<LayerNorm> match(const Node& last) const {
    const auto [d, root, reciprocal] = quotient_by_root(last);
    if (root == nullptr) return std::nullopt;
    const Node* difference = producer_of(d, op::subtract);
    if (difference == nullptr) return std::nullopt;
    const Node* sum = producer_of(root->inputs[0], op::add);
    if (sum == nullptr) return std::nullopt;
    auto epsilon = constant_scalar(sum->inputs[1]);
    const Node* variance = producer_of(sum->inputs[0], op::mean);
    if (!epsilon) {
      epsilon = constant_scalar(sum->inputs[0]);
      variance = producer_of(sum->inputs[1], op::mean);
    }
    if (!epsilon || variance == nullptr || !is_square_of(variance->inputs[0], d)) return std::nullopt;
    std::optional<LayerNorm> found = match_deviation(*difference);
    if (!found || trailing_axis(*variance) != found->axis) return std::nullopt;
    found->epsilon = *epsilon;
    found->inside.insert({root, sum, variance, variance->inputs[0]->producer});
    if (reciprocal != nullptr) found->inside.insert(reciprocal);
    // A constant of one element may have more axes than the data.
    return last.result()->type == found->data->type && is_private(*found, last) ? found : std::nullopt;
  }

  // Nothing outside reads what lies between.
  bool is_private(const LayerNorm& found, const Node& last) const {
    for (const Node* node : found.inside) {
      if (rewriter_.function().is_output(node->result())) return false;
      for (const Node* user : node->result()->users) {
        if (user != &last && found.inside.count(user) == 0) return false;
      }
    }
    return true;
  }

  /// The only user of the value if it is that op and its other operand is fixed per normalised element.
  Node* affine_user(const Value* value, const OpHandle& op, const LayerNorm& found) const {
    Node* user = only_user_of(rewriter_.function(), value, op);
    if (user == nullptr || !(user->result()->type == value->type)) return nullptr;
    const Value* other = operand_beside(*user, value);
    const bool fits = other != nullptr && other->is_constant() &&
                      other->type.rank() <= found.data->type.rank() - static_cast<int>(found.axis);
    return fits ? user : nullptr;
  }
  static Value* operand_beside(const Node& node, const Value* value) {
    if (node.inputs[0] == value) return node.inputs[1] == value ? nullptr : node.inputs[1];
    return node.inputs[0];
  }

  Value* one(DType dtype) {
    const float single = 1;
    const double wide = 1;
    const void* bytes = dtype == DType::kF64 ? static_cast<const void*>(&wide) : &single;
    return rewriter_.function().add_constant("one", make_constant({dtype, {1}}, bytes));
  }

  void replace(Node& quotient, const LayerNorm& found) {
    const DType dtype = found.data->type.dtype;
    if (dtype != DType::kF32 && dtype != DType::kF64) return;
    Node* last = &quotient;
    Value *scale = nullptr, *bias = nullptr;
    std::vector<std::string> origin = quotient.origin;
    auto take = [&](Node* user) {
      Value* operand = operand_beside(*user, last->result());
      join_origin(origin, user->origin);
      last = user;
      return operand;
    };
    if (Node* product = affine_user(last->result(), op::multiply, found)) scale = take(product);
    if (Node* sum = affine_user(last->result(), op::add, found)) bias = take(sum);
    auto attrs = std::make_shared<LayerNormAttrs>();
    attrs->axis = found.axis;
    attrs->epsilon = found.epsilon;
    std::vector<Value*> inputs{found.data, scale != nullptr ? scale : one(dtype)};
    if (bias != nullptr) inputs.push_back(bias);
    rewriter_.replace(last->result(), rewriter_.before(*last, origin)(nn::layer_norm, inputs, attrs));
  }

  const Rewriter& rewriter_;
};

}  // namespace

void recognize_layer_norm(Graph& graph, PassContext& context) {
  LayerNormRecognizer(Rewriter(graph.main, context)).run();
}

extern const Pass recognize_layer_norm_pass{
    .name = "recognize_layer_norm",
    .purpose = "layer normalisation in steps becomes one op",
    .run = recognize_layer_norm,
};

}  // namespace gantry
