#include "host/ops/bind_dims.h"

#include <algorithm>

#include "host/ops/families.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

std::vector<TensorType> infer_bind_dims(const Node& node, Function&) {
  const auto& attrs = node.attrs_as<BindDimsAttrs>();
  for (const Shape* list : {&attrs.symbols, &attrs.negatives}) {
    for (const Dim& symbol : *list) ops::require(symbol.is_symbol(), "{} is no symbol", symbol.str());
  }
  const size_t count = attrs.symbols.size();
  ops::require(attrs.negatives.empty() || attrs.negatives.size() == count, "{} symbols have {} negatives", count,
               attrs.negatives.size());
  if (!ops::has_input(node, 0)) {
    ops::require(attrs.values.size() == count, "{} symbols have {} values", count, attrs.values.size());
  } else {
    const TensorType& x = ops::input_type(node, 0);
    ops::require(x.dtype == DType::kI64 || x.dtype == DType::kI32, "dimensions must be i64 or i32, not {}",
                 name_of(x.dtype));
    ops::require(attrs.values.empty(), "there are values beside the tensor");
    ops::require(!provably_different(element_count(x.shape), static_cast<int64_t>(count)),
                 "{} symbols stand for the elements of {}", count, x.str());
  }
  return {{DType::kBool, {0}}};
}

/// Collects the symbols of dimensions in attributes.
class SymbolCollector : public PartialAttrVisitor {
 public:
  explicit SymbolCollector(std::set<std::string>& symbols) : symbols_(symbols) {}

  void add(const Dim& dim) {
    if (dim.is_constant()) return;
    for (std::string& name : dim.symbols()) symbols_.insert(std::move(name));
  }
  using PartialAttrVisitor::operator();
  void operator()(std::string_view, Dim& value) override { add(value); }
  void operator()(std::string_view, Shape& value) override {
    for (const Dim& dim : value) add(dim);
  }

 private:
  std::set<std::string>& symbols_;
};

}  // namespace

std::vector<std::string> bound_symbols(const Node& node) {
  return op_set().bound_symbols(node);
}

bool binds_symbols(const Function& function) {
  return std::ranges::any_of(function.nodes(), [](const Node* n) { return op_def(*n).bound_symbols != nullptr; });
}

void add_mentioned_symbols(const Node& node, std::set<std::string>& symbols) {
  SymbolCollector collector(symbols);
  if (const auto* bind = node.match(op::bind_dims)) {
    for (const Dim& value : bind->values) collector.add(value);
    return;
  }
  std::set<std::string> mentioned;
  SymbolCollector own(mentioned);
  node.attrs->clone()->fields(own);  // visitors may assign, so fields() is not const
  for (const Value* result : node.results) {
    for (const Dim& dim : result->type.shape) own.add(dim);
  }
  for (const auto& body : node.bodies) {
    for (const DimConstraint& constraint : body->constraints) {
      own.add(constraint.left);
      own.add(constraint.right);
    }
    for (const Node* inner : body->nodes()) add_mentioned_symbols(*inner, mentioned);
    for (const Node* inner : body->nodes()) {
      for (const std::string& name : bound_symbols(*inner)) mentioned.erase(name);
    }
  }
  for (const std::string& name : bound_symbols(node)) mentioned.erase(name);
  symbols.merge(mentioned);
}

void add_bind_dims_op(OpSet& set) {
  OpDef op = ops::define(op::bind_dims, FusionClass::kOpaque, LayoutBehaviour::kNone, {"tensor"}, 1);
  op.infer = infer_bind_dims;
  op.flops = [](const Node&) { return Dim(0); };
  op.keeps_types = true;
  op.bound_symbols = [](const Node& node) {
    const auto& attrs = node.attrs_as<BindDimsAttrs>();
    std::vector<std::string> names;
    for (const Shape* list : {&attrs.symbols, &attrs.negatives}) {
      for (const Dim& symbol : *list) names.push_back(symbol.str());
    }
    return names;
  };
  set.add(std::move(op));
}

}  // namespace gantry
