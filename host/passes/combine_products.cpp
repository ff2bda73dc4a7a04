#include <algorithm>
#include <optional>
#include <set>

#include "host/ops/dense.h"
#include "host/ops/movement.h"
#include "host/ops/op.h"
#include "host/passes/canonicalize.h"
#include "host/passes/passes.h"

namespace gantry {
namespace {

/// A dense node in form gemm and the bias that follows it, if one does.
struct Product {
  Node* dense = nullptr;
  Node* sum = nullptr;
  Value* bias = nullptr;
  int64_t units = 0;

  Value* result() const { return (sum != nullptr ? sum : dense)->result(); }
};

class Combiner {
 public:
  explicit Combiner(Function& function) : function_(function), users_(function.users()) {
    outputs_.insert(function.outputs.begin(), function.outputs.end());
  }

  void run() {
    std::vector<std::pair<Value*, std::vector<Product>>> sharing;
    for (Node* node : function_.nodes()) {
      const std::optional<Product> product = match(*node);
      if (!product) continue;
      auto same = std::find_if(sharing.begin(), sharing.end(), [&](const auto& entry) {
        return entry.first == node->inputs[0] &&
               entry.second[0].dense->inputs[1]->type.dtype == node->inputs[1]->type.dtype;
      });
      if (same == sharing.end()) same = sharing.insert(same, {node->inputs[0], {}});
      same->second.push_back(*product);
    }
    for (const auto& [data, products] : sharing) {
      if (products.size() >= 2) combine(data, products);
    }
  }

 private:
  const std::vector<Node*>& users_of(const Value* value) const {
    static const std::vector<Node*> kNone;
    const auto found = users_.find(value);
    return found == users_.end() ? kNone : found->second;
  }

  std::optional<Product> match(Node& node) const {
    const auto* attrs = dynamic_cast<const DenseAttrs*>(node.attrs.get());
    if (attrs == nullptr || !attrs->gemm || !node.inputs[1]->is_constant()) return std::nullopt;
    Product product{&node, nullptr, nullptr, attrs->units};
    const auto& users = users_of(node.result());
    if (users.size() == 1 && users[0]->op->name == "add" && outputs_.count(node.result()) == 0) {
      Value* other = users[0]->inputs[users[0]->inputs[0] == node.result() ? 1 : 0];
      if (other->is_constant() && other->type.shape == Shape{attrs->units}) {
        product.sum = users[0];
        product.bias = other;
      }
    }
    return is_staged(product.result()) ? std::optional(product) : std::nullopt;
  }

  /// All that reads the value copies it into tiles, so that cutting it out of a larger result costs nothing.
  bool is_staged(const Value* value) const {
    if (outputs_.count(value) != 0 || users_of(value).size() != 1) return false;
    const Node& user = *users_of(value)[0];
    if (user.op->stages_input) {
      for (size_t i = 0; i < user.inputs.size(); ++i) {
        if (user.inputs[i] == value && user.op->stages_input(user, i)) return true;
      }
    }
    return user.op->fusion == FusionClass::kInjective && user.inputs.size() == 1 &&
           user.results.size() == 1 && is_staged(user.result());
  }

  Value* add(const Node& before, std::string_view op, std::shared_ptr<const Attrs> attrs,
             std::vector<Value*> inputs, const std::vector<std::string>& origin) {
    return infer_and_add(function_, op, std::move(attrs), std::move(inputs), origin, &before)->result();
  }

  Value* concatenate(const Node& before, const std::vector<Value*>& parts, int64_t axis,
                     const std::vector<std::string>& origin) {
    auto attrs = std::make_shared<AxisAttrs>();
    attrs->axis = axis;
    return add(before, "concatenate", attrs, parts, origin);
  }

  Value* zeros(int64_t count, DType dtype) {
    const TensorType type{dtype, {count}};
    std::byte* bytes = nullptr;
    auto data = allocate_constant(type, &bytes);
    std::fill(bytes, bytes + data->size, std::byte{0});
    return function_.add_constant("zeros", data);
  }

  /// x[…, begin:end]
  Value* columns(const Node& before, Value* x, int64_t begin, int64_t end,
                 const std::vector<std::string>& origin) {
    auto attrs = std::make_shared<StridedSliceAttrs>();
    attrs->begin.assign(x->type.shape.size(), Dim(0));
    attrs->end = x->type.shape;
    attrs->strides.assign(x->type.shape.size(), 1);
    attrs->begin.back() = begin;
    attrs->end.back() = end;
    return add(before, "strided_slice", attrs, {x}, origin);
  }

  void combine(Value* data, const std::vector<Product>& products) {
    const Node& first = *products.front().dense;
    std::vector<Value*> weights, biases;
    std::vector<std::string> origin;
    bool biased = false;
    auto attrs = std::make_shared<DenseAttrs>();
    attrs->gemm = true;
    for (const Product& product : products) {
      weights.push_back(product.dense->inputs[1]);
      biases.push_back(product.bias != nullptr ? product.bias : zeros(product.units, data->type.dtype));
      biased = biased || product.bias != nullptr;
      attrs->units += product.units;
      origin.insert(origin.end(), product.dense->origin.begin(), product.dense->origin.end());
    }
    Value* y = add(first, "nn.dense", attrs, {data, concatenate(first, weights, 1, first.origin)}, origin);
    if (biased) y = add(first, "add", nullptr, {y, concatenate(first, biases, 0, first.origin)}, origin);
    int64_t column = 0;
    for (const Product& product : products) {
      Value* part = columns(first, y, column, column + product.units, product.dense->origin);
      column += product.units;
      function_.replace_uses(product.result(), part);
    }
  }

  Function& function_;
  std::map<const Value*, std::vector<Node*>> users_;
  std::set<const Value*> outputs_;
};

}  // namespace

void combine_products(Graph& graph) {
  Combiner(graph.main).run();
}

}  // namespace gantry
