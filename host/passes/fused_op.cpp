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
  static const OpDef declared = [] {
    OpDef fused;
    fused.handle = &op::fused;
    fused.name = op::fused.name();
    fused.fusion = FusionClass::kOpaque;
    fused.min_inputs = 0;
    fused.max_inputs = -1;
    fused.infer = infer_fused;
    return fused;
  }();
  return &declared;
}

const OpBase* FusedOpTable::find(std::string_view name) const {
  return name == op::fused.name() ? fused_op() : ops_.find(name);
}

std::vector<TensorType> FusedOpTable::infer(const Node& node, Function& function) const {
  return node.op == fused_op() ? infer_fused(node, function) : ops_.infer(node, function);
}

}  // namespace gantry
