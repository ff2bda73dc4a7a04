// The declarations of ops of one element; what each is, stands in activation.h and unary.h.
#include "host/ops/elementwise.h"

#include "host/ops/families.h"
#include "host/ops/support.h"

namespace gantry {

void ops::require_taken(Takes takes, DType dtype) {
  const bool integer = is_signed_int(dtype) || is_unsigned_int(dtype);
  const bool ok = takes == Takes::kAnything || (takes == Takes::kFloat && is_float(dtype)) ||
                  (takes == Takes::kNumber && (is_float(dtype) || integer)) ||
                  (takes == Takes::kInteger && integer) || (takes == Takes::kBool && dtype == DType::kBool);
  require_dtype(ok, dtype);
}

namespace {

template <typename AttrsType>
void add(OpSet& set, const ElementwiseOp<AttrsType>& op) {
  OpDef def = ops::define(op, FusionClass::kElementwise, LayoutBehaviour::kAny, {"x"});
  const auto result_type = [&op](const Node& node, DType operand) {
    return op.result != nullptr ? op.result(node.attrs_as<AttrsType>()) : operand;
  };
  def.infer = [&op, result_type](const Node& node, Function&) {
    TensorType type = ops::input_type(node, 0);
    ops::require_taken(op.takes, type.dtype);
    type.dtype = result_type(node, type.dtype);
    return std::vector<TensorType>{type};
  };
  // The stage has the op's name without its family.
  const std::string stage = def.name.substr(def.name.rfind('.') + 1);
  def.compute = [&op, result_type, stage](const Node& node, const std::vector<Tensor>& in) {
    const auto& attrs = node.attrs_as<AttrsType>();
    return std::vector<Tensor>{ops::map_elements(in[0], result_type(node, in[0].dtype()), stage,
                                                 [&](const Expr& x) { return op.formula(attrs, x); })};
  };
  set.add(std::move(def));
}

}  // namespace

void add_unary_ops(OpSet& set) {
  std::apply([&](const auto*... op) { (add(set, *op), ...); }, kUnaryOps);
}

void add_activation_ops(OpSet& set) {
  std::apply([&](const auto*... op) { (add(set, *op), ...); }, kActivations);
}

}  // namespace gantry
