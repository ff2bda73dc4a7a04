// The way back through the graph.
#include "host/onnx/gradient.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "host/ops/dense.h"
#include "host/ops/elementwise.h"
#include "host/ops/reduce.h"

namespace gantry {
namespace {

using RuleMap = std::unordered_map<const OpHandle*, GradientRule>;

const RuleMap& rules() {
  static const RuleMap map = [] {
    GradientTable table;
    add_unary_gradients(table);
    add_activation_gradients(table);
    add_broadcast_gradients(table);
    add_movement_gradients(table);
    add_index_gradients(table);
    add_reduce_gradients(table);
    add_product_gradients(table);
    add_conv_gradients(table);
    add_pool_gradients(table);
    add_norm_gradients(table);
    RuleMap found;
    for (const GradientEntry& entry : table) found.emplace(entry.op, entry.rule);
    return found;
  }();
  return map;
}

using ValueSet = std::unordered_set<const Value*>;

/// The nodes that y is computed by from the values where the way ends, operands before those who read them.
std::vector<const Node*> nodes_before(const Value* y, const ValueSet& ends) {
  struct Visit {
    const Node* node;
    size_t next = 0;  ///< of its inputs
  };
  std::vector<const Node*> order;
  std::unordered_set<const Node*> seen;
  std::vector<Visit> open;
  const auto enter = [&](const Value* value) {
    if (value == nullptr || value->producer == nullptr || ends.count(value) != 0) return;
    if (seen.insert(value->producer).second) open.push_back({value->producer});
  };
  enter(y);
  while (!open.empty()) {
    if (open.back().next == open.back().node->inputs.size()) {
      order.push_back(open.back().node);
      open.pop_back();
    } else {
      const Value* input = open.back().node->inputs[open.back().next++];
      enter(input);
    }
  }
  return order;
}

/// The values that a change of one of `xs` may change a little: floats that are computed from them by the
/// nodes.
ValueSet dependents(const std::vector<const Node*>& nodes, const std::vector<Value*>& xs,
                    const ValueSet& ends) {
  ValueSet found(xs.begin(), xs.end());
  for (const Node* node : nodes) {
    if (std::ranges::none_of(node->inputs, [&](const Value* input) { return found.count(input) != 0; }))
      continue;
    for (const Value* result : node->results) {
      if (is_float(result->type.dtype) && ends.count(result) == 0) found.insert(result);
    }
  }
  return found;
}

std::string text_of(const Node& node) {
  const std::string origin = node.origin.empty() ? "" : fmt::format(" (node {})", node.origin.back());
  return fmt::format("the derivative of {}{}", node.op->name, origin);
}

}  // namespace

Term Pullback::adjoint() const {
  return adjoints_.at(0) != nullptr ? Term(n_, adjoints_[0]) : constant_like(result(), 0);
}

void Pullback::give(size_t i, const Term& share) {
  if (!wants(i)) return;
  const TensorType& type = node_.inputs[i]->type;
  const Term added = summed_to(share.cast(type.dtype), type.shape);
  given_[i] = given_[i] == nullptr ? static_cast<Value*>(added) : Term(n_, given_[i]) + added;
}

void Pullback::give_through(const Term& same) {
  std::vector<Value*> wanted, others;
  std::vector<size_t> places;
  for (size_t i = 0; i < node_.inputs.size(); ++i) {
    Value* input = node_.inputs[i];
    if (input == nullptr) continue;
    if (!wants(i)) {
      others.push_back(input);
    } else if (std::ranges::find(wanted, input) == wanted.end()) {  // all uses count for the first one
      wanted.push_back(input);
      places.push_back(i);
    }
  }
  const std::vector<Value*> found = adjoints_of(n_, same, adjoint().cast(same.dtype()), wanted, others);
  for (size_t k = 0; k < wanted.size(); ++k) {
    if (found[k] != nullptr) give(places[k], {n_, found[k]});
  }
}

void Pullback::refuse(const std::string& why) const {
  n_.unsupported(UnsupportedKind::kOp, "{} {}", text_of(node_), why);
}

std::vector<Value*> adjoints_of(NodeImport& n, const Term& y, const Term& seed, const std::vector<Value*>& xs,
                                const std::vector<Value*>& fixed) {
  ValueSet ends(xs.begin(), xs.end());
  ends.insert(fixed.begin(), fixed.end());
  const std::vector<const Node*> nodes = nodes_before(y, ends);
  const ValueSet reached = dependents(nodes, xs, ends);
  std::unordered_map<const Value*, Value*> adjoints;
  if (reached.count(y) != 0) adjoints[y] = seed;
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    const Node& node = **it;
    std::vector<Value*> of_results;
    for (const Value* result : node.results) {
      const auto known = ends.count(result) == 0 ? adjoints.find(result) : adjoints.end();
      of_results.push_back(known == adjoints.end() ? nullptr : known->second);
    }
    if (std::ranges::all_of(of_results, [](const Value* adjoint) { return adjoint == nullptr; })) continue;
    Pullback back(n, node, std::move(of_results));
    std::vector<bool> wanted;
    for (const Value* input : node.inputs) wanted.push_back(input != nullptr && reached.count(input) != 0);
    back.set_wanted(std::move(wanted));
    const auto rule = rules().find(node.op->handle);
    if (rule == rules().end()) n.unsupported(UnsupportedKind::kOp, "{}", text_of(node));
    rule->second(back);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (back.given()[i] == nullptr) continue;
      Value*& adjoint = adjoints[node.inputs[i]];
      adjoint = adjoint == nullptr ? back.given()[i] : Term(n, adjoint) + Term(n, back.given()[i]);
    }
  }
  std::vector<Value*> found;
  for (const Value* x : xs) {
    const auto adjoint = adjoints.find(x);
    found.push_back(adjoint == adjoints.end() ? nullptr : adjoint->second);
  }
  return found;
}

Term summed_to(const Term& x, const Shape& shape) {
  const auto rank = static_cast<int64_t>(shape.size());
  if (x.rank() < rank) return summed_to(x.broadcast(shape), shape);
  const int64_t extra = x.rank() - rank;
  std::vector<int64_t> leading, stretched;
  for (int64_t axis = 0; axis < extra; ++axis) leading.push_back(axis);
  Term y = leading.empty() ? x : sum(x, leading);
  for (int64_t axis = 0; axis < rank; ++axis) {
    if (shape[static_cast<size_t>(axis)] == Dim(1) && !(y.dim(axis) == Dim(1))) stretched.push_back(axis);
  }
  if (!stretched.empty()) y = sum(y, stretched, KeepAxes::kYes);
  // What is left is equal when the model runs, or is repeated itself.
  return y.broadcast(shape);
}

Term constant_like(const Term& x, double value) {
  return Term::filled(x.node(), x.dtype(), value, x.shape());
}

Term product(const Term& a, const Term& b, bool transpose_a, bool transpose_b) {
  auto attrs = std::make_shared<MatmulAttrs>();
  attrs->transpose_a = transpose_a;
  attrs->transpose_b = transpose_b;
  return {a.node(), a.node().add(op::matmul, {a, b}, attrs)};
}

}  // namespace gantry
