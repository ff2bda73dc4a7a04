#include <algorithm>
#include <optional>
#include <set>

#include "host/ops/dense.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"
#include "host/passes/canonicalize.h"
#include "host/passes/passes.h"
#include "host/passes/rewriter.h"

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

class ProductCombiner {
 public:
  explicit ProductCombiner(Function& function) : function_(function) {}

  void run(PassContext& context) {
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
      if (products.size() >= 2 && context.take_rewrite()) combine(data, products);
    }
  }

 private:
  std::optional<Product> match(Node& node) const {
    const auto* attrs = node.match(nn::dense);
    if (attrs == nullptr || !attrs->gemm || !node.inputs[1]->is_constant()) return std::nullopt;
    Product product{&node, nullptr, nullptr, attrs->units};
    if (Node* sum = only_user_of(function_, node.result(), op::add)) {
      Value* other = sum->inputs[sum->inputs[0] == node.result() ? 1 : 0];
      if (other->is_constant() && other->type.shape == Shape{attrs->units}) {
        product.sum = sum;
        product.bias = other;
      }
    }
    return is_staged(product.result()) ? std::optional(product) : std::nullopt;
  }

  /// All that reads the value copies it into tiles, so that cutting it out of a larger result costs nothing.
  bool is_staged(const Value* value) const {
    const Node* only = function_.only_user(value);
    if (only == nullptr) return false;
    const Node& user = *only;
    if (op_def(user).stages_input) {
      for (size_t i = 0; i < user.inputs.size(); ++i) {
        if (user.inputs[i] == value && op_def(user).stages_input(user, i)) return true;
      }
    }
    return op_def(user).fusion == FusionClass::kInjective && user.inputs.size() == 1 &&
           user.results.size() == 1 && is_staged(user.result());
  }

  Value* concatenate(const Node& before, const std::vector<Value*>& parts, int64_t axis,
                     const std::vector<std::string>& origin) {
    auto attrs = std::make_shared<AxisAttrs>();
    attrs->axis = axis;
    return Builder(function_, origin, &before)(op::concatenate, parts, attrs);
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
    return Builder(function_, origin, &before)(op::strided_slice, {x}, attrs);
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
    Value* y = Builder(function_, origin, &first)(nn::dense, {data, concatenate(first, weights, 1, first.origin)}, attrs);
    if (biased) y = Builder(function_, origin, &first)(op::add, {y, concatenate(first, biases, 0, first.origin)});
    int64_t column = 0;
    for (const Product& product : products) {
      Value* part = columns(first, y, column, column + product.units, product.dense->origin);
      column += product.units;
      function_.replace_uses(product.result(), part);
    }
  }

  Function& function_;
};

}  // namespace

void combine_products(Graph& graph, PassContext& context) {
  ProductCombiner(graph.main).run(context);
}

extern const Pass combine_products_pass{
    .name = "combine_products",
    .purpose = "products of the same data become one",
    .after = {"alter_layout"},
    .run = combine_products,
};

}  // namespace gantry
