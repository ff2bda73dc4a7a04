// What matrix products can do themselves with their right operands, instead of reading a changed copy.
#include <cmath>
#include <optional>

#include "host/ops/bitcast.h"
#include "host/ops/dense.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"
#include "host/passes/canonicalize.h"
#include "host/passes/passes.h"
#include "host/passes/rewriter.h"
#include "host/passes/strided_view.h"

namespace gantry {
namespace {

/// What `value` is the matrix transposition of; null where it is none, or one of other axes.
Value* transposed_matrix(const Value* value) {
  const Node* node = producer_of(value, op::transpose);
  if (node == nullptr) return nullptr;
  const std::vector<int64_t>& axes = node->attrs_as<TransposeAttrs>().axes;
  const size_t rank = axes.size();
  if (rank < 2) return nullptr;
  for (size_t i = 0; i < rank; ++i) {
    const size_t from = i + 2 < rank ? i : 2 * rank - 3 - i;
    if (axes[i] != static_cast<int64_t>(from)) return nullptr;
  }
  return node->inputs[0];
}

/// A product with or division by one constant, finite and not zero, whose other operand has the result's
/// shape.
struct Scaled {
  const Node* node = nullptr;
  size_t data = 0;  ///< the other operand
};

std::optional<Scaled> scaled_matrix(const Value* value) {
  const Node* node = producer_of(value, op::multiply);
  const bool product = node != nullptr;
  if (!product) node = producer_of(value, op::divide);
  if (node == nullptr) return std::nullopt;
  for (size_t data = 0; data < (product ? 2u : 1u); ++data) {
    const std::optional<double> factor = constant_scalar(node->inputs[1 - data]);
    if (factor && std::isfinite(*factor) && *factor != 0 && node->inputs[data]->type == value->type)
      return Scaled{node, data};
  }
  return std::nullopt;
}

/// Matrices (…, G, K, N) of which each stands for `times` neighbours of the last batch axis.
struct Repeated {
  Value* value = nullptr;  ///< (…, G, 1, K, N)
  Shape once;              ///< (…, G, K, N)
  Dim times;
};

/// `value` as a reshape that merges what broadcast_to repeated with the axis before it.
std::optional<Repeated> repeated_matrix(const Value* value) {
  const Node* merge = value->producer;
  if (merge == nullptr || !views_elements(*merge)) return std::nullopt;
  const Node* repeat = producer_of(merge->inputs[0], op::broadcast_to);
  if (repeat == nullptr) return std::nullopt;
  const Shape &from = repeat->inputs[0]->type.shape, &to = repeat->result()->type.shape;
  if (from.size() != to.size() || to.size() < 4) return std::nullopt;
  const size_t axis = to.size() - 3;
  Repeated found{repeat->inputs[0], {}, to[axis]};
  Shape merged;
  for (size_t i = 0; i < to.size(); ++i) {
    if (!((i == axis ? Dim(1) : to[i]) == from[i])) return std::nullopt;
    if (i == axis) {
      merged.back() = merged.back() * to[i];
    } else {
      merged.push_back(to[i]);
      found.once.push_back(to[i]);
    }
  }
  if (!(merged == value->type.shape) || found.times == Dim(1)) return std::nullopt;
  return found;
}

class OperandFolder {
 public:
  explicit OperandFolder(const Rewriter& rewriter) : rewriter_(rewriter) {}

  void run() {
    for (Node* node : rewriter_.nodes()) {
      const auto* attrs = node->match(op::matmul);
      if (attrs == nullptr || attrs->form.gemm) continue;
      while (Node* folded = fold(*node)) node = folded;
    }
  }

 private:
  /// The product that takes the node's place, if its right operand can be read before one of its changes.
  Node* fold(const Node& node) {
    if (Value* matrix = transposed_matrix(node.inputs[1])) return fold_transposition(node, matrix);
    if (const auto scaled = scaled_matrix(node.inputs[1])) return fold_scale(node, *scaled);
    if (const auto repeated = repeated_matrix(node.inputs[1])) return fold_repetition(node, *repeated);
    return nullptr;
  }

  Node* fold_transposition(const Node& node, Value* matrix) {
    auto attrs = std::make_shared<MatmulAttrs>(node.attrs_as<MatmulAttrs>());
    attrs->transpose_b = !attrs->transpose_b;
    Value* product = rewriter_.before(node)(op::matmul, {node.inputs[0], matrix}, attrs);
    return rewriter_.replace(node.result(), product) ? product->producer : nullptr;
  }

  Node* fold_scale(const Node& node, const Scaled& scaled) {
    const Builder build = rewriter_.before(node);
    const std::vector<Value*>& operands = scaled.node->inputs;
    Value* product = build.again(node, {node.inputs[0], operands[scaled.data]})->result();
    Value* result = build.again(*scaled.node, {product, operands[1 - scaled.data]})->result();
    return rewriter_.replace(node.result(), result) ? product->producer : nullptr;
  }

  /// The rows of all that share a matrix, one after the other.
  Node* fold_repetition(const Node& node, const Repeated& repeated) {
    Value* left = node.inputs[0];
    Shape shape = left->type.shape;
    if (node.attrs_as<MatmulAttrs>().transpose_a || shape.size() != repeated.once.size()) return nullptr;
    const size_t group = shape.size() - 3, rows = shape.size() - 2;
    const Dim& groups = repeated.once[group];
    if (!(shape[group] == groups * repeated.times)) return nullptr;
    shape[group] = groups;
    shape[rows] = repeated.times * shape[rows];
    const Builder build = rewriter_.before(node);
    Value* product =
        build.again(node, {build.reshape(left, shape), build.reshape(repeated.value, repeated.once)})->result();
    Value* result = build.reshape(product, node.result()->type.shape);
    return rewriter_.replace(node.result(), result) ? product->producer : nullptr;
  }

  const Rewriter& rewriter_;
};

}  // namespace

void fold_right_operands(Graph& graph, PassContext& context) {
  OperandFolder(Rewriter(graph.main, context)).run();
  // Factors and what follows them join the products' kernels, which views would part them from.
  move_elementwise_before_views(graph, context);
  remove_dead_nodes(graph.main);
}

extern const Pass fold_right_operands_pass{
    .name = "fold_right_operands",
    .purpose = "on CPUs matrix products read operands before their transposition or scale",
    .when = for_cpus,
    .run = fold_right_operands,
};

}  // namespace gantry
