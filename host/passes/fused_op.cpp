#include "host/ops/support.h"
#include "host/passes/fuse_ops.h"
#include "host/support/error.h"

namespace gantry {
namespace {

/// User errors for bodies that no kernel can be made of.
void check_body(const Function& body) {
  for (const Value* constant : body.constants()) {
    if (is_immediate(*constant)) continue;
    user_error("the constant @{} in the body @{} is a {}; give it to the node as an input: a body holds "
               "constants of one element alone, of another type than f16, bf16 and u64",
               constant->name, body.name, constant->type.str());
  }
  for (const Node* node : body.nodes()) {
    if (!node->bodies.empty()) user_error("the body @{} has a node with a body of its own", body.name);
  }
  for (const Value* output : body.outputs) {
    if (output->kind != Value::Kind::kResult)
      user_error("the body @{} returns {}, which none of its nodes computes", body.name, output->name);
  }
}

std::vector<TensorType> infer_fused(const Node& node, Function& function) {
  if (node.bodies.size() != 1) user_error("a fused node has one body, not {}", node.bodies.size());
  const Function& body = *node.bodies[0];
  check_body(body);
  if (body.parameters.size() != node.inputs.size()) {
    user_error("the body @{} takes {} inputs, not {}", body.name, body.parameters.size(), node.inputs.size());
  }
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Value& parameter = *body.parameters[i];
    if (node.inputs[i] == nullptr) user_error("the input for %{} of a fused node is absent", parameter.name);
    const TensorType& given = node.inputs[i]->type;
    if (!may_be_equal(given, parameter.type)) {
      user_error("the body @{} takes a {} as %{}, not a {}", body.name, parameter.type.str(), parameter.name,
                 given.str());
    }
    for (size_t d = 0; d < given.shape.size(); ++d)
      ops::unify(given.shape[d], parameter.type.shape[d], function, node, "dimensions of a fused node's input");
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

std::vector<std::string> FusedOpTable::names() const {
  std::vector<std::string> names = ops_.names();
  names.push_back(fused_op()->name);
  return names;
}

const OpBase* FusedOpTable::find(std::string_view name) const {
  return name == op::fused.name() ? fused_op() : ops_.find(name);
}

std::vector<TensorType> FusedOpTable::infer(const Node& node, Function& function) const {
  return node.op == fused_op() ? infer_fused(node, function) : ops_.infer(node, function);
}

}  // namespace gantry
