#include <cmath>
#include <set>

#include "host/ops/elementwise.h"
#include "host/ops/image.h"
#include "host/ops/movement.h"
#include "host/ops/norm.h"
#include "host/passes/passes.h"
#include "host/passes/rewriter.h"

namespace gantry {
namespace {

double element(const ConstantData& constant, size_t i) {
  return constant.type.dtype == DType::kF64 ? constant.as<double>()[i]
                                            : static_cast<double>(constant.as<float>()[i]);
}

// Only what can be computed here and now: parameters that are inputs keep the op.
bool has_constant_parameters(const Node& node) {
  const DType dtype = node.result()->type.dtype;
  if (node.inputs.size() != 5 || (dtype != DType::kF32 && dtype != DType::kF64)) return false;
  for (size_t i = 1; i < 5; ++i) {
    const Value* input = node.inputs[i];
    if (input == nullptr || !input->is_constant() || input->type.rank() != 1) return false;
    if (input->type.dtype != DType::kF32 && input->type.dtype != DType::kF64) return false;
    if (!(input->type.shape == node.inputs[1]->type.shape)) return false;
  }
  return true;
}

struct ScaleAndShift {
  ConstantPtr scale, shift;
};

template <typename T>
ScaleAndShift fold_parameters(const Node& node, const TensorType& type, double epsilon) {
  const auto channels = static_cast<size_t>(element_count(type.shape).value());
  std::vector<T> scale(channels), shift(channels);
  for (size_t c = 0; c < channels; ++c) {
    const double gain = element(*node.inputs[1]->constant, c), bias = element(*node.inputs[2]->constant, c);
    const double mean = element(*node.inputs[3]->constant, c),
                 variance = element(*node.inputs[4]->constant, c);
    const double factor = gain / std::sqrt(variance + epsilon);
    scale[c] = static_cast<T>(factor);
    shift[c] = static_cast<T>(bias - mean * factor);
  }
  return {make_constant(type, scale.data()), make_constant(type, shift.data())};
}

// x * scale + shift, both shaped to meet the channel axis: (C, 1, …).
bool replace_batch_norm(const Rewriter& rewriter, Node& node, const BatchNormAttrs& attrs) {
  TensorType type{node.result()->type.dtype, {node.inputs[1]->type.shape[0]}};
  for (int64_t axis = attrs.axis + 1; axis < node.result()->type.rank(); ++axis) type.shape.emplace_back(1);
  const ScaleAndShift folded = type.dtype == DType::kF64 ? fold_parameters<double>(node, type, attrs.epsilon)
                                                         : fold_parameters<float>(node, type, attrs.epsilon);
  const Builder build = rewriter.before(node);
  Value* scale = build.constant(node.inputs[1]->name + ".scale", folded.scale);
  Value* shift = build.constant(node.inputs[2]->name + ".shift", folded.shift);
  return rewriter.replace(node.result(), build(op::add, {build(op::multiply, {node.inputs[0], scale}), shift}));
}

/// The result is the input: dropout, identity, reshapes to the shape that the input has, casts to its own
/// type, padding by nothing.
bool does_nothing(const Node& node) {
  if (node.results.size() != 1 || node.inputs.empty() || !(node.result()->type == node.inputs[0]->type))
    return false;
  if (op_def(node).is_view || node.match(op::cast) != nullptr) return true;
  const auto* pad = node.match(op::pad);
  return pad != nullptr && all_zero(pad->before) && all_zero(pad->after);
}

}  // namespace

void simplify_inference(Graph& graph, PassContext& context) {
  const Rewriter rewriter(graph.main, context);
  std::set<const Node*> gone;
  for (Node* node : rewriter.nodes()) {
    bool replaced = false;
    if (const auto* attrs = node->match(nn::batch_norm)) {
      replaced = has_constant_parameters(*node) && replace_batch_norm(rewriter, *node, *attrs);
    } else if (does_nothing(*node)) {
      replaced = rewriter.replace(node->result(), node->inputs[0]);
    }
    if (replaced) gone.insert(node);
  }
  graph.main.remove_nodes([&](const Node& node) { return gone.count(&node) != 0; });
  graph.main.drop_unused_constants();
}

extern const Pass simplify_inference_pass{
    .name = "simplify_inference",
    .purpose = "batch normalisation becomes a scale and an offset; dropout goes",
    .run = simplify_inference,
};

}  // namespace gantry
