// Ops that make values from positions and dimensions.
#include "host/ops/families.h"
#include "host/ops/movement.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

using ops::input_type;

void add_arange(OpSet& set) {
  OpDef op = ops::define(op::arange, FusionClass::kInjective, LayoutBehaviour::kNone, {});
  op.infer = [](const Node& node, Function&) {
    const auto& a = node.attrs_as<ArangeAttrs>();
    ops::require_dtype(a.dtype != DType::kBool, a.dtype);
    return std::vector<TensorType>{{a.dtype, {a.count}}};
  };
  op.compute = [](const Node& node, const std::vector<Tensor>&) {
    const auto& a = node.attrs_as<ArangeAttrs>();
    auto body = [&](const std::vector<Expr>& i) {
      Expr value = Expr(a.start) + i[0] * Expr(a.step);
      return a.dtype == DType::kI64 ? value : cast(a.dtype, value);
    };
    return std::vector<Tensor>{compute({Expr(a.count)}, body, "arange")};
  };
  set.add(std::move(op));
}

void add_dims_to_tensor(OpSet& set) {
  OpDef op =
      ops::define(op::dims_to_tensor, FusionClass::kInjective, LayoutBehaviour::kNone, {});
  op.infer = [](const Node& node, Function&) {
    return std::vector<TensorType>{
        {DType::kI64, {static_cast<int64_t>(node.attrs_as<DimsToTensorAttrs>().dims.size())}}};
  };
  op.compute = [](const Node& node, const std::vector<Tensor>&) {
    const Shape& dims = node.attrs_as<DimsToTensorAttrs>().dims;
    auto body = [&](const std::vector<Expr>& i) {
      Expr value = dims.empty() ? Expr(0) : Expr(dims.back());
      for (size_t d = dims.size(); d-- > 1;)
        value = select(eq(i[0], static_cast<int64_t>(d - 1)), Expr(dims[d - 1]), value);
      return value;
    };
    return std::vector<Tensor>{compute({static_cast<int64_t>(dims.size())}, body, "dims_to_tensor")};
  };
  set.add(std::move(op));
}

void add_trilu(OpSet& set) {
  OpDef op = ops::define(op::trilu, FusionClass::kInjective, LayoutBehaviour::kNone, {"data"});
  op.infer = [](const Node& node, Function&) {
    ops::require(input_type(node, 0).rank() >= 2, "the data {} must be matrices", input_type(node, 0).str());
    return std::vector<TensorType>{input_type(node, 0)};
  };
  op.compute = [](const Node& node, const std::vector<Tensor>& in) {
    const auto& a = node.attrs_as<TriluAttrs>();
    auto body = [&](const std::vector<Expr>& i) {
      Expr diagonal = i[i.size() - 2] + Expr(a.k), column = i.back();
      Expr kept = a.upper ? ge(column, diagonal) : le(column, diagonal);
      return select(kept, in[0](i), const_of(in[0].dtype(), 0));
    };
    return std::vector<Tensor>{compute(in[0].shape(), body, "trilu")};
  };
  set.add(std::move(op));
}

}  // namespace

void add_create_ops(OpSet& set) {
  add_arange(set);
  add_dims_to_tensor(set);
  add_trilu(set);
}

}  // namespace gantry
