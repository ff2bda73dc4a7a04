// Reductions over axes.
#include "host/ops/reduce.h"

#include <algorithm>

#include "host/ops/families.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

using ops::input_type;
using ops::require;

enum class Takes : uint8_t { kNumber, kBool };

bool reduces(const ReduceAttrs& attrs, size_t axis) {
  return std::find(attrs.axes.begin(), attrs.axes.end(), static_cast<int64_t>(axis)) != attrs.axes.end();
}

/// The axes that are left where the reduced ones are dropped follow each other as before.
bool keeps_order(const ReduceAttrs& attrs, const std::vector<int>& to) {
  int previous = -1;
  for (size_t axis = 0; axis < to.size(); ++axis) {
    if (reduces(attrs, axis)) continue;
    if (to[axis] < previous) return false;
    previous = to[axis];
  }
  return true;
}

Shape reduced_shape(const Shape& shape, const ReduceAttrs& attrs) {
  Shape result;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!reduces(attrs, i))
      result.push_back(shape[i]);
    else if (attrs.keepdims)
      result.push_back(1);
  }
  return result;
}

std::vector<TensorType> infer_reduce(Takes takes, const Node& node, Function&) {
  const auto& attrs = node.attrs_as<ReduceAttrs>();
  const TensorType& x = input_type(node, 0);
  ops::require_dtype((x.dtype == DType::kBool) == (takes == Takes::kBool), x.dtype);
  for (size_t i = 0; i < attrs.axes.size(); ++i) {
    ops::require_axis(attrs.axes[i], x.rank());
    require(i == 0 || attrs.axes[i - 1] < attrs.axes[i], "axes must ascend");
  }
  return {{x.dtype, reduced_shape(x.shape, attrs)}};
}

/// The reduction itself, in the widened dtype.
Tensor reduce_stage(const Node& node, const Tensor& x, ReduceKind kind, const std::string& name) {
  const auto& attrs = node.attrs_as<ReduceAttrs>();
  std::vector<Expr> extents;
  for (int64_t axis : attrs.axes) extents.push_back(x.shape()[static_cast<size_t>(axis)]);
  auto axes = ops::reduce_axes(extents, "k");
  auto body = [&](const std::vector<Expr>& i) {
    std::vector<Expr> at;
    size_t kept = 0, reduced = 0;
    for (size_t d = 0; d < x.shape().size(); ++d) {
      if (!reduces(attrs, d)) {
        at.push_back(i[kept++]);
      } else {
        at.push_back(axes[reduced++]->var);
        if (attrs.keepdims) ++kept;
      }
    }
    Expr element = ops::widen(x(at));
    return axes.empty() ? element : reduce(kind, element, axes);
  };
  return compute(ops::result_shape(node), body, name, axes.empty() ? Role::kNone : Role::kReduction);
}

std::vector<Tensor> compute_mean(const Node& node, const std::vector<Tensor>& in) {
  const Tensor& x = in[0];
  std::vector<Expr> extents;
  for (int64_t axis : node.attrs_as<ReduceAttrs>().axes)
    extents.push_back(x.shape()[static_cast<size_t>(axis)]);
  Expr count = ops::count_as(ops::widened(x.dtype()), extents);
  // Of no elements, or of more than the type counts: processors trap where integers are divided by 0.
  if (!is_float(count.type().dtype)) count = max(count, const_of(count.type().dtype, 1));
  Tensor total = reduce_stage(node, x, ReduceKind::kSum, "sum");
  return {ops::map_elements(total, x.dtype(), "mean", [&](Expr s) { return s / count; })};
}

void add_reduce(OpSet& set, const OpHandle& handle, Takes takes,
                std::function<std::vector<Tensor>(const Node&, const std::vector<Tensor>&)> compute_fn) {
  OpDef op = ops::define(handle, FusionClass::kReduction, LayoutBehaviour::kAxisRemap, {"data"});
  op.infer = [takes](const Node& node, Function& function) { return infer_reduce(takes, node, function); };
  op.compute = std::move(compute_fn);
  op.remap_axes = ops::remapper<ReduceAttrs>([](ReduceAttrs& a, const std::vector<int>& to) {
    if (!a.keepdims && !keeps_order(a, to)) return false;
    for (int64_t& axis : a.axes) axis = to[static_cast<size_t>(axis)];
    std::sort(a.axes.begin(), a.axes.end());
    return true;
  });
  op.flops = [](const Node& node) { return element_count(node.inputs[0]->type.shape); };
  set.add(std::move(op));
}

}  // namespace

void add_reduce_ops(OpSet& set) {
  struct Entry {
    const OpHandle* op;
    ReduceKind kind;
    Takes takes;
  };
  const Entry entries[] = {
      {&op::sum, ReduceKind::kSum, Takes::kNumber}, {&op::prod, ReduceKind::kProd, Takes::kNumber},
      {&op::max, ReduceKind::kMaxOrNan, Takes::kNumber}, {&op::min, ReduceKind::kMinOrNan, Takes::kNumber},
      {&op::all, ReduceKind::kAll, Takes::kBool},   {&op::any, ReduceKind::kAny, Takes::kBool},
  };
  for (const Entry& e : entries) {
    add_reduce(set, *e.op, e.takes, [e](const Node& node, const std::vector<Tensor>& in) {
      return std::vector<Tensor>{ops::narrow(reduce_stage(node, in[0], e.kind, std::string(e.op->name())), in[0].dtype())};
    });
  }
  add_reduce(set, op::mean, Takes::kNumber, compute_mean);
}

}  // namespace gantry
