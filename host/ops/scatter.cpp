// scatter_elements and scatter_nd: loop nests by hand, as several updates may meet in one element.
#include "host/ops/scatter.h"

#include "host/loops/stmt.h"
#include "host/ops/families.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

using ops::input_type;
using ops::require;

void check_operands(const Node& node) {
  const TensorType& indices = input_type(node, 1);
  require(indices.dtype == DType::kI64 || indices.dtype == DType::kI32, "indices must be i64 or i32, not {}",
          name_of(indices.dtype));
  ops::require_same_dtype(node, 0, 2);
  bool arithmetic = node.attrs_as<ScatterAttrs>().reduction != ScatterReduction::kNone;
  require(!arithmetic || input_type(node, 0).dtype != DType::kBool, "cannot combine bool elements");
}

std::vector<TensorType> infer_scatter_elements(const Node& node, Function& function) {
  const TensorType &x = input_type(node, 0), &indices = input_type(node, 1), &updates = input_type(node, 2);
  check_operands(node);
  ops::require_axis(node.attrs_as<ScatterAttrs>().axis, x.rank());
  require(indices.rank() == x.rank() && updates.rank() == x.rank(),
          "data {}, indices {} and updates {} must have one rank", x.str(), indices.str(), updates.str());
  size_t axis = static_cast<size_t>(node.attrs_as<ScatterAttrs>().axis);
  for (size_t d = 0; d < x.shape.size(); ++d) {
    ops::unify(indices.shape[d], updates.shape[d], function, node, "indices and updates");
    bool outside = d != axis && x.shape[d].is_constant() && indices.shape[d].is_constant() &&
                   indices.shape[d].value() > x.shape[d].value();
    require(!outside, "indices {} are larger than the data {}", indices.str(), x.str());
    require(d == axis || indices.shape[d].is_constant() || indices.shape[d] == x.shape[d],
            "indices {} may be larger than the data {}", indices.str(), x.str());
  }
  return {x};
}

std::vector<TensorType> infer_scatter_nd(const Node& node, Function& function) {
  const TensorType &x = input_type(node, 0), &indices = input_type(node, 1), &updates = input_type(node, 2);
  check_operands(node);
  require(indices.rank() >= 1 && indices.shape.back().is_constant(),
          "the last dimension of the indices {} must be known", indices.str());
  int64_t depth = indices.shape.back().value();
  require(depth >= 0 && depth <= x.rank(), "indices {} do not index into {}", indices.str(), x.str());
  Shape expected(indices.shape.begin(), indices.shape.end() - 1);
  expected.insert(expected.end(), x.shape.begin() + depth, x.shape.end());
  require(expected.size() == updates.shape.size(), "updates {} should have the shape {}", updates.str(),
          to_string(expected));
  for (size_t d = 0; d < expected.size(); ++d) {
    ops::unify(expected[d], updates.shape[d], function, node, "updates");
  }
  return {x};
}

Expr combined(ScatterReduction reduction, DType dtype, const Expr& old, const Expr& update) {
  if (reduction == ScatterReduction::kNone) return update;
  Expr a = ops::widen(old), b = ops::widen(update);
  switch (reduction) {
    case ScatterReduction::kAdd:
      return cast(dtype, a + b);
    case ScatterReduction::kMultiply:
      return cast(dtype, a * b);
    case ScatterReduction::kMax:
      return cast(dtype, max(a, b));
    default:
      return cast(dtype, min(a, b));
  }
}

Expr product_of(const std::vector<Expr>& extents, size_t begin, size_t end) {
  Expr product = 1;
  for (size_t i = begin; i < end; ++i) product = product * extents[i];
  return product;
}

/// Row-major offset.
Expr offset_of(const std::vector<Expr>& index, const std::vector<Expr>& shape) {
  Expr offset = 0;
  for (size_t d = 0; d < shape.size(); ++d) offset = offset * shape[d] + index[d];
  return offset;
}

/// A nest of serial loops over `extents`, the last one innermost.
Stmt nest_over(const std::vector<Expr>& variables, const std::vector<Expr>& extents, Stmt body) {
  for (size_t d = extents.size(); d-- > 0;) {
    body = for_loop(variables[d], 0, extents[d], LoopKind::kSerial, body);
  }
  return body;
}

std::vector<Expr> loop_variables(size_t count) {
  std::vector<Expr> variables;
  for (size_t d = 0; d < count; ++d) variables.push_back(make_var("u" + std::to_string(d)));
  return variables;
}

struct Operands {
  ScatterAttrs attrs;
  std::vector<Expr> data, indices;
  DType dtype;
  size_t depth = 0;  ///< scatter_nd: coordinates in a row of indices
};

/// Where the data has no elements there is no place to write to, whatever the indices say.
Stmt unless_empty(const Operands& o, Stmt body) {
  return if_stmt(lt(Expr(0), product_of(o.data, 0, o.data.size())), body);
}

Stmt copy_data(LoopBuilder& b, const Operands& o) {
  Expr i = make_var("i");
  Stmt body = store(b.result(0), i, load(b.input(0), i));
  return for_loop(i, 0, product_of(o.data, 0, o.data.size()), LoopKind::kSerial, body);
}

void emit_elements(LoopBuilder& b, const Operands& o) {
  std::vector<Expr> at = loop_variables(o.indices.size());
  Expr update = offset_of(at, o.indices), target_var = make_var("target");
  std::vector<Expr> to = at;
  size_t axis = static_cast<size_t>(o.attrs.axis);
  to[axis] = ops::clamped_position(load(b.input(1), update), o.data[axis]);
  Expr value = combined(o.attrs.reduction, o.dtype, load(b.result(0), target_var), load(b.input(2), update));
  Stmt body = let(target_var, offset_of(to, o.data), store(b.result(0), target_var, value));
  b.emit(copy_data(b, o));
  b.emit(unless_empty(o, nest_over(at, o.indices, body)));
}

void emit_nd(LoopBuilder& b, const Operands& o) {
  Expr row = make_var("row"), i = make_var("i"), slice_var = make_var("slice");
  Expr slice = 0;
  for (size_t d = 0; d < o.depth; ++d) {
    Expr coordinate = load(b.input(1), row * static_cast<int64_t>(o.depth) + static_cast<int64_t>(d));
    slice = slice * o.data[d] + ops::clamped_position(coordinate, o.data[d]);
  }
  Expr length = product_of(o.data, o.depth, o.data.size());
  Expr target = slice_var * length + i;
  Expr value =
      combined(o.attrs.reduction, o.dtype, load(b.result(0), target), load(b.input(2), row * length + i));
  Stmt inner = for_loop(i, 0, length, LoopKind::kSerial, store(b.result(0), target, value));
  b.emit(copy_data(b, o));
  Stmt rows = for_loop(row, 0, product_of(o.indices, 0, o.indices.size() - 1), LoopKind::kSerial,
                       let(slice_var, slice, inner));
  b.emit(unless_empty(o, rows));
}

std::vector<Tensor> compute_scatter(const Node& node, const std::vector<Tensor>& in,
                                    void (*emit)(LoopBuilder&, const Operands&)) {
  Operands operands{node.attrs_as<ScatterAttrs>(), in[0].shape(), in[1].shape(), in[0].dtype()};
  if (const Dim& last = input_type(node, 1).shape.back(); last.is_constant()) {
    operands.depth = static_cast<size_t>(last.value());
  }
  auto body = [operands, emit](LoopBuilder& b) { emit(b, operands); };
  return extern_kernel(in, {in[0].shape()}, {in[0].dtype()}, body, "scatter", "scatter");
}

}  // namespace

void add_scatter_ops(OpSet& set) {
  auto add = [&](const char* name, auto infer, void (*emit)(LoopBuilder&, const Operands&)) {
    OpDef op = ops::define<ScatterAttrs>(name, FusionClass::kOpaque, LayoutBehaviour::kNone,
                                         {"data", "indices", "updates"});
    op.infer = infer;
    op.compute = [emit](const Node& node, const std::vector<Tensor>& in) {
      return compute_scatter(node, in, emit);
    };
    set.add(std::move(op));
  };
  add("scatter_elements", infer_scatter_elements, emit_elements);
  add("scatter_nd", infer_scatter_nd, emit_nd);
}

}  // namespace gantry
