// scatter_elements and scatter_nd: loop nests by hand, as several updates may meet in one element.
#include "host/ops/scatter.h"

#include <functional>
#include <optional>

#include "host/graph/shape_guess.h"
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
  const DType dtype = input_type(node, 0).dtype;
  ops::require_dtype(!arithmetic || (dtype != DType::kBool && dtype != DType::kString), dtype);
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
    if (d == axis) continue;
    ops::require_at_least(x.shape[d] - indices.shape[d], 0, function, node,
                          fmt::format("indices {} are larger than the data {}", indices.str(), x.str()));
  }
  return {x};
}

std::vector<TensorType> infer_scatter_nd(const Node& node, Function& function) {
  const TensorType &x = input_type(node, 0), &indices = input_type(node, 1), &updates = input_type(node, 2);
  check_operands(node);
  require(indices.rank() >= 1, "the indices {} should have a dimension", indices.str());
  ops::require_known(indices.shape.back().is_constant(), "last dimension of the indices");
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

/// body(i) for i in [from, from + count), that many vectors first and the rest one by one.
Stmt in_vectors(const Expr& from, const Expr& count, const std::function<Stmt(const Expr& i)>& body) {
  constexpr int64_t kLanes = 16;
  const Expr vector = make_var("vector"), lane = make_var("lane"), rest = make_var("rest");
  const Expr vectors = floordiv(count, kLanes), done = vectors * kLanes;
  Stmt whole = for_loop(lane, 0, kLanes, LoopKind::kVectorized, body(from + vector * kLanes + lane));
  return block({for_loop(vector, 0, vectors, LoopKind::kSerial, whole),
                for_loop(rest, 0, count - done, LoopKind::kSerial, body(from + done + rest))});
}

Stmt copy_data(LoopBuilder& b, const Operands& o) {
  constexpr int64_t kChunk = 4096;  // elements that a thread copies at once
  auto copy = [&](const Expr& i) { return store(b.result(0), i, load(b.input(0), i)); };
  const Expr count = product_of(o.data, 0, o.data.size()), chunk = make_var("chunk");
  const Expr chunks = floordiv(count, kChunk), done = chunks * kChunk;
  return block({for_loop(chunk, 0, chunks, LoopKind::kParallel, in_vectors(chunk * kChunk, kChunk, copy)),
                in_vectors(done, count - done, copy)});
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

/// scatter_nd: which slice of the data a row of indices names, in row-major order.
Expr slice_named_by(const LoopBuilder& b, const Operands& o, const Expr& row) {
  Expr slice = 0;
  for (size_t d = 0; d < o.depth; ++d) {
    const Expr coordinate = load(b.input(1), row * static_cast<int64_t>(o.depth) + static_cast<int64_t>(d));
    slice = slice * o.data[d] + ops::clamped_position(coordinate, o.data[d]);
  }
  return slice;
}

void emit_nd(LoopBuilder& b, const Operands& o) {
  const Expr row = make_var("row"), slice_var = make_var("slice");
  Expr length = product_of(o.data, o.depth, o.data.size());
  Stmt inner = in_vectors(0, length, [&](const Expr& i) {
    const Expr target = slice_var * length + i, update = load(b.input(2), row * length + i);
    return store(b.result(0), target,
                 combined(o.attrs.reduction, o.dtype, load(b.result(0), target), update));
  });
  b.emit(copy_data(b, o));
  Stmt rows = for_loop(row, 0, product_of(o.indices, 0, o.indices.size() - 1), LoopKind::kSerial,
                       let(slice_var, slice_named_by(b, o, row), inner));
  b.emit(unless_empty(o, rows));
}

// --- GPU

/// Updates in groups that meet in no element, of `count` updates each, which are applied in order.
struct UpdateGroups {
  Expr groups, count;
  std::function<Expr(const Expr&group, const Expr&k)> target, update;
};

std::optional<int64_t> known(const Expr& e) {
  const auto* imm = e.as<IntImmNode>();
  return imm ? std::optional(imm->value) : std::nullopt;
}

/// `count`, or 0 where the data has no element that an update could go to.
Expr unless_empty(const Operands& o, const Expr& count) {
  return count * min(Expr(1), product_of(o.data, 0, o.data.size()));
}

/// A thread a group.
void apply_in_order(LoopBuilder& b, const Operands& o, const UpdateGroups& all) {
  b.launch_flat(unless_empty(o, all.groups), [&](const Expr& group) {
    b.loop("k", all.count, [&](const Expr& k) {
      b.let("target", all.target(group, k), [&](const Expr& target) {
        Expr value = combined(o.attrs.reduction, o.dtype, load(b.result(0), target),
                              load(b.input(2), all.update(group, k)));
        b.emit(store(b.result(0), target, value));
      });
    });
  });
}

/// A thread an update: the first of those to one element applies them all.
void apply_by_leaders(LoopBuilder& b, const Operands& o, const UpdateGroups& all) {
  b.launch_flat(unless_empty(o, all.groups * all.count), [&](const Expr& i) {
    const Expr group = mod(i, all.groups), own = floordiv(i, all.groups);
    Buffer value = b.local("value", o.dtype, 1), leads = b.local("leads", DType::kI32, 1);
    b.let("target", all.target(group, own), [&](const Expr& target) {
      b.emit(store(value, 0, load(b.input(0), target)));
      b.emit(store(leads, 0, int_imm(DType::kI32, 1)));
      b.loop("k", all.count, [&](const Expr& k) {
        b.when(eq(all.target(group, k), target), [&] {
          b.when(lt(k, own), [&] { b.emit(store(leads, 0, int_imm(DType::kI32, 0))); });
          Expr update = load(b.input(2), all.update(group, k));
          b.emit(store(value, 0, combined(o.attrs.reduction, o.dtype, load(value, 0), update)));
        });
      });
      b.when(eq(load(leads, 0), int_imm(DType::kI32, 1)),
             [&] { b.emit(store(b.result(0), target, load(value, 0))); });
    });
  });
}

void apply_on_gpu(LoopBuilder& b, const Operands& o, const UpdateGroups& all) {
  constexpr int64_t kManyGroups = 4096, kFewUpdates = 16;
  if (known(all.groups).value_or(0) >= kManyGroups ||
      known(all.count).value_or(guess::kLong) <= kFewUpdates)
    apply_in_order(b, o, all);
  else
    apply_by_leaders(b, o, all);
}

void copy_on_gpu(LoopBuilder& b, const Operands& o) {
  b.launch_flat(product_of(o.data, 0, o.data.size()),
                [&](const Expr& i) { b.emit(store(b.result(0), i, load(b.input(0), i))); });
}

/// Updates with the same coordinates but the axis's are a group.
void elements_on_gpu(LoopBuilder& b, const Operands& o) {
  const auto axis = static_cast<size_t>(o.attrs.axis);
  auto place = [o, axis](Expr group, const Expr& k) {
    std::vector<Expr> at(o.indices.size());
    for (size_t d = at.size(); d-- > 0;) {
      if (d == axis) continue;
      at[d] = mod(group, o.indices[d]);
      group = floordiv(group, o.indices[d]);
    }
    at[axis] = k;
    return at;
  };
  UpdateGroups all;
  all.count = o.indices[axis];
  all.groups = product_of(o.indices, 0, axis) * product_of(o.indices, axis + 1, o.indices.size());
  all.update = [=](const Expr& group, const Expr& k) { return offset_of(place(group, k), o.indices); };
  all.target = [=, indices = b.input(1)](const Expr& group, const Expr& k) {
    std::vector<Expr> to = place(group, k);
    to[axis] = ops::clamped_position(load(indices, offset_of(to, o.indices)), o.data[axis]);
    return offset_of(to, o.data);
  };
  copy_on_gpu(b, o);
  apply_on_gpu(b, o, all);
}

/// The elements at one place of all slices are a group.
void nd_on_gpu(LoopBuilder& b, const Operands& o) {
  UpdateGroups all;
  all.count = product_of(o.indices, 0, o.indices.size() - 1);
  all.groups = product_of(o.data, o.depth, o.data.size());
  Buffer slices = b.scratch("slices", DType::kI64, all.count);
  copy_on_gpu(b, o);
  b.launch_flat(all.count, [&](const Expr& row) { b.emit(store(slices, row, slice_named_by(b, o, row))); });
  all.update = [=](const Expr& group, const Expr& k) { return k * all.groups + group; };
  all.target = [=](const Expr& group, const Expr& k) { return load(slices, k) * all.groups + group; };
  apply_on_gpu(b, o, all);
}

struct Nests {
  void (*cpu)(LoopBuilder&, const Operands&);
  void (*gpu)(LoopBuilder&, const Operands&);
};

std::vector<Tensor> compute_scatter(const Node& node, const std::vector<Tensor>& in, Nests nests) {
  Operands operands{node.attrs_as<ScatterAttrs>(), in[0].shape(), in[1].shape(), in[0].dtype()};
  if (const Dim& last = input_type(node, 1).shape.back(); last.is_constant()) {
    operands.depth = static_cast<size_t>(last.value());
  }
  auto on_cpu = [=](LoopBuilder& b) { nests.cpu(b, operands); };
  auto on_gpu = [=](LoopBuilder& b) { nests.gpu(b, operands); };
  return extern_kernel(in, {in[0].shape()}, {in[0].dtype()}, on_cpu, "scatter", on_gpu);
}

}  // namespace

void add_scatter_ops(OpSet& set) {
  auto add = [&](const OpHandle& handle, auto infer, Nests nests) {
    OpDef op = ops::define(handle, FusionClass::kOpaque, LayoutBehaviour::kNone,
                                         {"data", "indices", "updates"});
    op.infer = infer;
    op.compute = [nests](const Node& node, const std::vector<Tensor>& in) {
      return compute_scatter(node, in, nests);
    };
    set.add(std::move(op));
  };
  add(op::scatter_elements, infer_scatter_elements, {emit_elements, elements_on_gpu});
  add(op::scatter_nd, infer_scatter_nd, {emit_nd, nd_on_gpu});
}

}  // namespace gantry
