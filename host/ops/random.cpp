#include "host/ops/random.h"

#include "host/ops/families.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

Expr bits(uint64_t value) {
  return int_imm(DType::kU64, static_cast<int64_t>(value));
}

Expr mixed(const Expr& state) {
  const auto folded = [](const Expr& z, uint64_t shift) {
    return binary(BinaryOp::kXor, z, binary(BinaryOp::kShr, z, bits(shift)));
  };
  const Expr first = folded(state, 30) * bits(0xBF58476D1CE4E5B9u);
  return folded(folded(first, 27) * bits(0x94D049BB133111EBu), 31);
}

std::vector<Tensor> compute_bits(const Node& node, const std::vector<Tensor>&) {
  const auto& attrs = node.attrs_as<RandomBitsAttrs>();
  const std::vector<Expr> shape = to_exprs(attrs.shape);
  const auto body = [&](const std::vector<Expr>& i) {
    Expr place = 0;
    for (size_t d = 0; d < shape.size(); ++d) place = place * shape[d] + i[d];
    const Expr state =
        bits(static_cast<uint64_t>(attrs.seed)) + cast(DType::kU64, place + 1) * bits(0x9E3779B97F4A7C15u);
    return mixed(state);
  };
  return {compute(shape, body, "random_bits")};
}

}  // namespace

void add_random_ops(OpSet& set) {
  OpDef op = ops::define(op::random_bits, FusionClass::kInjective, LayoutBehaviour::kNone, {});
  op.infer = [](const Node& node, Function&) {
    const Shape& shape = node.attrs_as<RandomBitsAttrs>().shape;
    for (const Dim& d : shape)
      ops::require(!d.is_constant() || d.value() >= 0, "the shape {} has a negative dimension",
                   to_string(shape));
    return std::vector<TensorType>{{DType::kU64, shape}};
  };
  op.compute = compute_bits;
  set.add(std::move(op));
}

}  // namespace gantry
