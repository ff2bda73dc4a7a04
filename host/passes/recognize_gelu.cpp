// The Gaussian error linear unit in steps, as exporters wrote it before ONNX had an op for it:
//   y = 0.5 * x * (1 + erf(x / sqrt(2)))      with the three factors in any order and association
//   y = x * (0.5 + 0.5 * erf(x / sqrt(2)))
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "host/ops/elementwise.h"
#include "host/ops/op.h"
#include "host/passes/canonicalize.h"
#include "host/passes/strided_view.h"

namespace gantry {
namespace {

bool close_to(const std::optional<double>& value, double wanted) {
  return value && std::abs(*value - wanted) <= 1e-6 * wanted;
}

class Recognizer {
 public:
  explicit Recognizer(Function& function) : function_(function), users_(function.users()) {
    outputs_.insert(function.outputs.begin(), function.outputs.end());
  }

  void run() {
    const std::vector<Node*> nodes = function_.nodes();
    for (Node* node : nodes) {
      if (producer_of(node->result(), "erf") == nullptr) continue;
      if (Value* x = argument(*node)) match(*node, x);
    }
  }

 private:
  // x where the node is erf(x / sqrt(2))
  static Value* argument(const Node& erf) {
    const Node* scaled = producer_of(erf.inputs[0], "divide");
    if (scaled != nullptr && close_to(constant_scalar(scaled->inputs[1]), std::sqrt(2.0)))
      return scaled->inputs[0];
    scaled = producer_of(erf.inputs[0], "multiply");
    for (size_t i : {0, 1}) {
      if (scaled != nullptr && close_to(constant_scalar(scaled->inputs[i]), std::sqrt(0.5)))
        return scaled->inputs[1 - i];
    }
    return nullptr;
  }

  Node* only_user(const Value* value, std::string_view op) const {
    const auto found = users_.find(value);
    if (found == users_.end() || found->second.size() != 1 || outputs_.count(value) != 0) return nullptr;
    Node* user = found->second.front();
    return producer_of(user->result(), op) != nullptr ? user : nullptr;
  }

  static Value* beside(const Node& node, const Value* value) {
    return node.inputs[node.inputs[0] == value ? 1 : 0];
  }

  /// From 1 + erf on, products with x and with a half, or with half of x; from half of that on, with x.
  void match(const Node& erf, Value* x) {
    const Node* term = &erf;
    bool has_x = false, has_half = false;
    std::vector<std::string> origin = erf.origin;
    if (const Node* half = only_user(erf.result(), "multiply")) {
      if (!close_to(constant_scalar(beside(*half, erf.result())), 0.5)) return;
      has_half = true;
      origin.insert(origin.end(), half->origin.begin(), half->origin.end());
      term = half;
    }
    Node* last = only_user(term->result(), "add");
    if (last == nullptr || !close_to(constant_scalar(beside(*last, term->result())), has_half ? 0.5 : 1))
      return;
    while (!has_x || !has_half) {
      const Value* product = last->result();
      Node* next = only_user(product, "multiply");
      if (next == nullptr || next->inputs[0] == next->inputs[1]) return;
      Value* other = beside(*next, product);
      if (other == x && !has_x) {
        has_x = true;
      } else if (close_to(constant_scalar(other), 0.5) && !has_half) {
        has_half = true;
      } else if (!has_x && !has_half && is_half_of(other, x)) {
        has_x = has_half = true;
      } else {
        return;
      }
      origin.insert(origin.end(), next->origin.begin(), next->origin.end());
      last = next;
    }
    if (!(last->result()->type == x->type)) return;
    Node* gelu = infer_and_add(function_, "nn.gelu", std::make_shared<GeluAttrs>(), {x}, origin, last);
    function_.replace_uses(last->result(), gelu->result());
  }

  static bool is_half_of(const Value* value, const Value* x) {
    const Node* product = producer_of(value, "multiply");
    if (product == nullptr) return false;
    return (product->inputs[0] == x && close_to(constant_scalar(product->inputs[1]), 0.5)) ||
           (product->inputs[1] == x && close_to(constant_scalar(product->inputs[0]), 0.5));
  }

  Function& function_;
  std::map<const Value*, std::vector<Node*>> users_;
  std::set<const Value*> outputs_;
};

}  // namespace

void recognize_gelu(Function& function) {
  Recognizer(function).run();
}

}  // namespace gantry
