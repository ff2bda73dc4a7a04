// Ops that read data at positions which are data themselves. Negative positions count from the end; positions
// outside are clamped, so that no index reads outside its tensor.
#include <algorithm>

#include "host/ops/families.h"
#include "host/ops/movement.h"
#include "host/ops/readable.h"
#include "host/ops/sequence.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

using ops::input_type;
using ops::require;
using ops::result_shape;

void require_indices(const Node& node, size_t i) {
  DType dtype = input_type(node, i).dtype;
  require(dtype == DType::kI64 || dtype == DType::kI32, "indices must be i64 or i32, not {}", name_of(dtype));
}

/// Positions are brought to one that the axis has.
void require_readable(const Dim& extent, const Shape& indices, Function& function, const Node& node) {
  ops::require_readable(extent, indices, function, node, "cannot read from an axis of extent 0");
}

/// Whether that is known. Then none is read when the model runs, and any value stands for an element.
bool has_no_elements(const Expr& extent) {
  const auto* known = extent.as<IntImmNode>();
  return known != nullptr && known->value == 0;
}

using ops::clamped_position;

using Body = std::function<Expr(const Node&, const std::vector<Tensor>&, const std::vector<Expr>&)>;

OpDef indexing(const OpHandle& handle, std::vector<std::string> inputs, Body body) {
  OpDef op = ops::define(handle, FusionClass::kInjective, LayoutBehaviour::kNone, std::move(inputs));
  op.compute = [name = op.name, body](const Node& node, const std::vector<Tensor>& in) {
    auto at = [&](const std::vector<Expr>& i) { return body(node, in, i); };
    return std::vector<Tensor>{compute(result_shape(node), at, name)};
  };
  return op;
}

// --- gather

std::vector<TensorType> infer_gather(const Node& node, Function& function) {
  const TensorType &x = input_type(node, 0), &indices = input_type(node, 1);
  int64_t axis = node.attrs_as<AxisAttrs>().axis;
  require_indices(node, 1);
  ops::require_axis(axis, x.rank());
  require_readable(x.shape[static_cast<size_t>(axis)], indices.shape, function, node);
  Shape shape(x.shape.begin(), x.shape.begin() + axis);
  shape.insert(shape.end(), indices.shape.begin(), indices.shape.end());
  shape.insert(shape.end(), x.shape.begin() + axis + 1, x.shape.end());
  return {{x.dtype, shape}};
}

Expr gather(const Node& node, const std::vector<Tensor>& in, const std::vector<Expr>& i) {
  int64_t axis = node.attrs_as<AxisAttrs>().axis;
  const Expr extent = in[0].shape()[static_cast<size_t>(axis)];
  if (has_no_elements(extent)) return const_of(in[0].dtype(), 0);
  auto middle = i.begin() + axis, rest = middle + in[1].rank();
  std::vector<Expr> at(i.begin(), middle);
  at.push_back(clamped_position(in[1]({middle, rest}), extent));
  at.insert(at.end(), rest, i.end());
  return in[0](at);
}

// --- gather_elements

std::vector<TensorType> infer_gather_elements(const Node& node, Function& function) {
  const TensorType &x = input_type(node, 0), &indices = input_type(node, 1);
  size_t axis = static_cast<size_t>(node.attrs_as<AxisAttrs>().axis);
  require_indices(node, 1);
  ops::require_axis(node.attrs_as<AxisAttrs>().axis, x.rank());
  require(x.rank() == indices.rank(), "data {} and indices {} must have one rank", x.str(), indices.str());
  for (size_t d = 0; d < x.shape.size(); ++d) {
    if (d == axis) {
      require_readable(x.shape[d], indices.shape, function, node);
      continue;
    }
    ops::require_at_least(x.shape[d] - indices.shape[d], 0, function, node,
                          fmt::format("indices {} are larger than the data {}", indices.str(), x.str()));
  }
  return {{x.dtype, indices.shape}};
}

Expr gather_elements(const Node& node, const std::vector<Tensor>& in, const std::vector<Expr>& i) {
  size_t axis = static_cast<size_t>(node.attrs_as<AxisAttrs>().axis);
  const Expr extent = in[0].shape()[axis];
  if (has_no_elements(extent)) return const_of(in[0].dtype(), 0);
  std::vector<Expr> at = i;
  at[axis] = clamped_position(in[1](i), extent);
  return in[0](at);
}

// --- gather_nd

std::vector<TensorType> infer_gather_nd(const Node& node, Function& function) {
  const TensorType &x = input_type(node, 0), &indices = input_type(node, 1);
  int64_t batch = node.attrs_as<GatherNdAttrs>().batch_dims;
  require_indices(node, 1);
  require(indices.rank() >= 1, "the indices {} should have a dimension", indices.str());
  ops::require_known(indices.shape.back().is_constant(), "last dimension of the indices");
  int64_t depth = indices.shape.back().value();
  require(batch >= 0 && batch < indices.rank() && depth >= 1 && batch + depth <= x.rank(),
          "indices {} do not index into {} after {} batch dimensions", indices.str(), x.str(), batch);
  Shape shape(indices.shape.begin(), indices.shape.end() - 1);
  for (int64_t d = 0; d < batch + depth; ++d) {
    size_t at = static_cast<size_t>(d);
    if (d < batch)
      ops::unify(x.shape[at], indices.shape[at], function, node, "batch dimensions");
    else
      require_readable(x.shape[at], shape, function, node);
  }
  shape.insert(shape.end(), x.shape.begin() + batch + depth, x.shape.end());
  return {{x.dtype, shape}};
}

Expr gather_nd(const Node& node, const std::vector<Tensor>& in, const std::vector<Expr>& i) {
  int64_t batch = node.attrs_as<GatherNdAttrs>().batch_dims;
  int64_t depth = input_type(node, 1).shape.back().value();
  auto tail = i.begin() + in[1].rank() - 1;
  std::vector<Expr> at(i.begin(), i.begin() + batch);
  for (int64_t d = 0; d < depth; ++d) {
    const Expr extent = in[0].shape()[static_cast<size_t>(batch + d)];
    if (has_no_elements(extent)) return const_of(in[0].dtype(), 0);
    std::vector<Expr> where(i.begin(), tail);
    where.push_back(d);
    at.push_back(clamped_position(in[1](where), extent));
  }
  at.insert(at.end(), tail, i.end());
  return in[0](at);
}

// --- one_hot

std::vector<TensorType> infer_one_hot(const Node& node, Function&) {
  const auto& attrs = node.attrs_as<OneHotAttrs>();
  const TensorType &indices = input_type(node, 0), &values = input_type(node, 1);
  require(indices.dtype != DType::kBool, "indices must be numbers");
  require(values.rank() == 1 && values.shape[0] == Dim(2), "the values must be two: off and on");
  ops::require_axis(attrs.axis, indices.rank() + 1);
  Shape shape = indices.shape;
  shape.insert(shape.begin() + attrs.axis, attrs.depth);
  return {{values.dtype, shape}};
}

Expr one_hot(const Node& node, const std::vector<Tensor>& in, const std::vector<Expr>& i) {
  const auto& attrs = node.attrs_as<OneHotAttrs>();
  std::vector<Expr> at = i;
  at.erase(at.begin() + attrs.axis);
  Expr index = cast(DType::kI64, ops::widen(in[0](at)));
  // What is negative here of u64 is beyond any depth, and no class.
  if (!is_unsigned_int(in[0].dtype())) index = select(lt(index, 0), index + Expr(attrs.depth), index);
  return select(eq(index, i[static_cast<size_t>(attrs.axis)]), in[1]({Expr(1)}), in[1]({Expr(0)}));
}

// --- reverse_sequence

std::vector<TensorType> infer_reverse_sequence(const Node& node, Function& function) {
  const auto& attrs = node.attrs_as<ReverseSequenceAttrs>();
  const TensorType &x = input_type(node, 0), &lengths = input_type(node, 1);
  require_indices(node, 1);
  require(x.rank() >= 2, "the data {} should have a batch and a time axis", x.str());
  require(std::min(attrs.batch, attrs.time) == 0 && std::max(attrs.batch, attrs.time) == 1,
          "of the batch and the time axis one must be 0 and the other one 1, they are {} and {}", attrs.batch,
          attrs.time);
  require(lengths.rank() == 1, "the lengths {} should have one axis", lengths.str());
  ops::unify(x.shape[static_cast<size_t>(attrs.batch)], lengths.shape[0], function, node, "sequences and their lengths");
  return {x};
}

Expr reverse_sequence(const Node& node, const std::vector<Tensor>& in, const std::vector<Expr>& i) {
  const auto& attrs = node.attrs_as<ReverseSequenceAttrs>();
  const auto time = static_cast<size_t>(attrs.time), batch = static_cast<size_t>(attrs.batch);
  const Expr length = min(cast(DType::kI64, in[1]({i[batch]})), in[0].shape()[time]);
  std::vector<Expr> at = i;
  at[time] = select(lt(i[time], length), length - 1 - i[time], i[time]);
  return in[0](at);
}

}  // namespace

void add_index_ops(OpSet& set) {
  auto add = [&](OpDef op, auto infer, bool reads_part) {
    op.infer = infer;
    op.reads_part = reads_part;
    set.add(std::move(op));
  };
  add(indexing(op::gather, {"data", "indices"}, gather), infer_gather, true);
  add(indexing(op::gather_elements, {"data", "indices"}, gather_elements), infer_gather_elements,
      true);
  add(indexing(op::gather_nd, {"data", "indices"}, gather_nd), infer_gather_nd, true);
  add(indexing(op::one_hot, {"indices", "values"}, one_hot), infer_one_hot, false);
  add(indexing(op::reverse_sequence, {"data", "lengths"}, reverse_sequence), infer_reverse_sequence, false);
}

}  // namespace gantry
