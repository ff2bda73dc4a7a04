#include "host/onnx/branches.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <set>

#include "host/ops/bind_dims.h"
#include "host/ops/control.h"
#include "host/ops/elementwise.h"

namespace gantry {
namespace {

/// The symbols that a body binds itself: nobody outside knows them.
std::set<std::string> symbols_bound_in(const Function& body) {
  std::set<std::string> bound;
  for (const Node* node : body.nodes()) {
    for (std::string& name : bound_symbols(*node)) bound.insert(std::move(name));
  }
  return bound;
}

bool is_seen_outside(const Dim& dim, const std::set<std::string>& inside) {
  return dim.is_constant() || std::ranges::none_of(dim.symbols(), [&](const std::string& name) {
           return inside.count(name) != 0;
         });
}

/// Types of the results; dimensions that the branches do not have in common become symbols.
std::vector<TensorType> common_types(NodeImport& n, const Function& a, const Function& b, IfAttrs& attrs) {
  std::set<std::string> inside = symbols_bound_in(a);
  inside.merge(symbols_bound_in(b));
  std::vector<TensorType> types;
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    const TensorType &x = a.outputs[i]->type, &y = b.outputs[i]->type;
    if (x.dtype != y.dtype || x.rank() != y.rank())
      n.unsupported(UnsupportedKind::kControlFlow, "branches whose results differ in rank or element type");
    TensorType& type = types.emplace_back(TensorType{x.dtype, {}});
    for (size_t d = 0; d < x.shape.size(); ++d) {
      const bool common = x.shape[d] == y.shape[d] && is_seen_outside(x.shape[d], inside);
      type.shape.push_back(common ? x.shape[d] : n.new_symbol(fmt::format("{}_{}_d{}", n.name(), i, d)));
      attrs.dims.push_back(type.shape.back());
      if (!common) attrs.symbols.push_back(type.shape.back());
    }
  }
  return types;
}

}  // namespace

bool ranks_differ(const ImportedBody& then_body, const ImportedBody& else_body) {
  const std::vector<Value*>&a = then_body.function->outputs, &b = else_body.function->outputs;
  if (a.size() != b.size()) return false;
  bool differ = false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i]->type.dtype != b[i]->type.dtype) return false;
    differ = differ || a[i]->type.rank() != b[i]->type.rank();
  }
  return differ;
}

Branch impossible_branch(NodeImport& n, const Branch& other, const std::string& why) {
  const std::set<std::string> inside = symbols_bound_in(*other.body->function);
  const onnx::GraphProto empty;
  const auto start = [&](Function& function) {
    for (const Value* result : other.body->function->outputs) {
      Shape shape = result->type.shape;
      for (Dim& dim : shape) dim = is_seen_outside(dim, inside) ? dim : Dim(0);
      Value* zeros = n.broadcast(n.scalar(result->type.dtype, 0), std::move(shape));
      function.outputs.push_back(n.add(op::copy, {zeros}));
    }
    function.constraints.push_back({0, 1, why});
    return BodyStart{};
  };
  const auto give_nothing = [](const std::vector<Binding>&) { return std::vector<Value*>(); };
  return {n.import_body(empty, start, give_nothing), other.results};
}

std::vector<Binding> add_branches(NodeImport& n, Value* condition, const Branch& then_branch, const Branch& else_branch) {
  if (then_branch.results != else_branch.results)
    n.unsupported(UnsupportedKind::kControlFlow, "branches whose results differ in how many tensors they are");
  const ImportedBody &then_body = *then_branch.body, &else_body = *else_branch.body;
  auto attrs = std::make_shared<IfAttrs>();
  const std::vector<TensorType> types = common_types(n, *then_body.function, *else_body.function, *attrs);
  attrs->then_inputs = static_cast<int64_t>(then_body.captured.size());
  std::vector<Value*> inputs{condition};
  inputs.insert(inputs.end(), then_body.captured.begin(), then_body.captured.end());
  inputs.insert(inputs.end(), else_body.captured.begin(), else_body.captured.end());
  const Node* node = n.add_control(op::if_else, attrs, std::move(inputs), types, {then_body, else_body});
  return carried_back(then_branch.results, node->results);
}

}  // namespace gantry
