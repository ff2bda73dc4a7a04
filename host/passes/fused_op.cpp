#include "host/passes/fuse_ops.h"
#include "host/support/error.h"

namespace gantry {
namespace {

bool may_be_equal(const TensorType& a, const TensorType& b) {
  if (a.dtype != b.dtype || a.rank() != b.rank()) return false;
  for (size_t d = 0; d < a.shape.size(); ++d) {
    if (provably_different(a.shape[d], b.shape[d])) return false;
  }
  return true;
}

std::vector<TensorType> infer_fused(const Node& node, Function&) {
  if (node.bodies.size() != 1) user_error("a fused node has one body, not {}", node.bodies.size());
  const Function& body = *node.bodies[0];
  if (body.parameters.size() != node.inputs.size()) {
    user_error("the body @{} takes {} inputs, not {}", body.name, body.parameters.size(), node.inputs.size());
  }
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!may_be_equal(node.inputs[i]->type, body.parameters[i]->type)) {
      user_error("the body @{} takes a {} as %{}, not a {}", body.name, body.parameters[i]->type.str(),
                 body.parameters[i]->name, node.inputs[i]->type.str());
    }
  }
  std::vector<TensorType> types;
  for (const Value* output : body.outputs) types.push_back(output->type);
  return types;
}

}  // namespace

const OpDef* fused_op() {
  static const OpDef op = [] {
    OpDef fused;
    fused.name = "fused";
    fused.fusion = FusionClass::kOpaque;
    fused.min_inputs = 0;
    fused.max_inputs = -1;
    fused.make_attrs = [] { return std::make_shared<NoAttrs>(); };
    fused.infer = infer_fused;
    return fused;
  }();
  return &op;
}

std::string_view FusedOpTable::op_name(const OpDef* op) const {
  return op == fused_op() ? std::string_view(op->name) : ops_.op_name(op);
}

const OpDef* FusedOpTable::find(std::string_view name) const {
  return name == fused_op()->name ? fused_op() : ops_.find(name);
}

std::shared_ptr<Attrs> FusedOpTable::default_attrs(const OpDef* op) const {
  return op == fused_op() ? op->make_attrs() : ops_.default_attrs(op);
}

std::vector<TensorType> FusedOpTable::infer(const Node& node, Function& function) const {
  return node.op == fused_op() ? infer_fused(node, function) : ops_.infer(node, function);
}

}  // namespace gantry
