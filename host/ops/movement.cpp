// Ops that rearrange elements.
#include "host/ops/movement.h"

#include <algorithm>

#include "host/graph/shape_guess.h"
#include "host/ops/families.h"
#include "host/ops/repeat.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

using ops::input_type;
using ops::require;
using ops::result_shape;

template <typename T>
std::vector<T> permuted(const std::vector<T>& v, const std::vector<int>& to) {
  std::vector<T> out(v.size());
  for (size_t i = 0; i < v.size(); ++i) out[static_cast<size_t>(to[i])] = v[i];
  return out;
}

/// A dimension that is 0 where the expression is negative.
Dim at_least_zero(const Dim& d) {
  auto low = d.lower_bound();
  return low && *low >= 0 ? d : max(d, 0);
}

// --- transpose

void add_transpose(OpSet& set) {
  OpDef op =
      ops::define(op::transpose, FusionClass::kInjective, LayoutBehaviour::kNone, {"data"});
  op.infer = [](const Node& node, Function&) {
    const TensorType& x = input_type(node, 0);
    const auto& axes = node.attrs_as<TransposeAttrs>().axes;
    std::vector<bool> seen(x.shape.size());
    require(axes.size() == x.shape.size(), "{} axes do not permute {}", axes.size(), x.str());
    TensorType result{x.dtype, {}};
    for (int64_t axis : axes) {
      ops::require_axis(axis, x.rank());
      require(!seen[static_cast<size_t>(axis)], "axis {} occurs twice", axis);
      seen[static_cast<size_t>(axis)] = true;
      result.shape.push_back(x.shape[static_cast<size_t>(axis)]);
    }
    return std::vector<TensorType>{result};
  };
  op.compute = [](const Node& node, const std::vector<Tensor>& in) {
    const auto& axes = node.attrs_as<TransposeAttrs>().axes;
    auto body = [&](const std::vector<Expr>& i) {
      std::vector<Expr> at(i.size());
      for (size_t d = 0; d < i.size(); ++d) at[static_cast<size_t>(axes[d])] = i[d];
      return in[0](at);
    };
    return std::vector<Tensor>{compute(result_shape(node), body, "transpose")};
  };
  set.add(std::move(op));
}

// --- concatenate

std::vector<TensorType> infer_concatenate(const Node& node, Function& function) {
  TensorType result = input_type(node, 0);
  int64_t axis = node.attrs_as<AxisAttrs>().axis;
  ops::require_axis(axis, result.rank());
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    const TensorType& next = input_type(node, i);
    ops::require_same_dtype(node, 0, i);
    require(next.rank() == result.rank(), "{} and {} differ in rank", result.str(), next.str());
    for (size_t d = 0; d < result.shape.size(); ++d) {
      Dim& dim = result.shape[d];
      dim = d == static_cast<size_t>(axis)
                ? dim + next.shape[d]
                : ops::unify(dim, next.shape[d], function, node, "dimensions beside the axis");
    }
  }
  return {result};
}

std::vector<Tensor> compute_concatenate(const Node& node, const std::vector<Tensor>& in) {
  size_t axis = static_cast<size_t>(node.attrs_as<AxisAttrs>().axis);
  std::vector<Expr> starts{0};
  for (const Tensor& t : in) starts.push_back(starts.back() + t.shape()[axis]);
  auto body = [&](const std::vector<Expr>& i) {
    auto read = [&](size_t part) {
      std::vector<Expr> at = i;
      at[axis] = i[axis] - starts[part];
      return in[part](at);
    };
    Expr value = read(in.size() - 1);
    for (size_t part = in.size() - 1; part-- > 0;)
      value = if_then_else(lt(i[axis], starts[part + 1]), read(part), value);
    return value;
  };
  return {compute(result_shape(node), body, "concatenate")};
}

void add_concatenate(OpSet& set) {
  OpDef op =
      ops::define(op::concatenate, FusionClass::kInjective, LayoutBehaviour::kAxisRemap, {"data"});
  op.max_inputs = -1;
  op.infer = infer_concatenate;
  op.compute = compute_concatenate;
  op.remap_axes = ops::axis_remapper<AxisAttrs>();
  set.add(std::move(op));
}

// --- strided_slice

std::vector<TensorType> infer_slice(const Node& node, Function&) {
  const auto& a = node.attrs_as<StridedSliceAttrs>();
  TensorType result = input_type(node, 0);
  size_t rank = result.shape.size();
  require(a.begin.size() == rank && a.end.size() == rank && a.strides.size() == rank,
          "begin, end and strides need an entry for each axis of {}", result.str());
  for (size_t d = 0; d < rank; ++d) {
    require(a.strides[d] != 0, "a stride is 0");
    Dim extent = result.shape[d];
    Dim count = a.strides[d] > 0 ? ceildiv(a.end[d] - a.begin[d], a.strides[d])
                                 : ceildiv(a.begin[d] - a.end[d], Dim(a.strides[d]) * -1);
    count = at_least_zero(count);
    // Of others whoever makes the node sees to it, as NodeImport::slice does.
    if (extent.is_constant() && a.begin[d].is_constant() && count.is_constant() && count.value() > 0) {
      int64_t first = a.begin[d].value(), last = first + (count.value() - 1) * a.strides[d];
      require(std::min(first, last) >= 0 && std::max(first, last) < extent.value(),
              "the slice reaches outside axis {} of {}", d, input_type(node, 0).str());
    }
    result.shape[d] = count;
  }
  return {result};
}

void add_slice(OpSet& set) {
  OpDef op = ops::define(op::strided_slice, FusionClass::kInjective,
                                            LayoutBehaviour::kAxisRemap, {"data"});
  op.infer = infer_slice;
  op.reads_part = true;
  op.compute = [](const Node& node, const std::vector<Tensor>& in) {
    const auto& a = node.attrs_as<StridedSliceAttrs>();
    auto body = [&](const std::vector<Expr>& i) {
      std::vector<Expr> at;
      for (size_t d = 0; d < i.size(); ++d) at.push_back(Expr(a.begin[d]) + i[d] * a.strides[d]);
      return in[0](at);
    };
    return std::vector<Tensor>{compute(result_shape(node), body, "strided_slice")};
  };
  op.remap_axes = ops::remapper<StridedSliceAttrs>([](StridedSliceAttrs& a, const std::vector<int>& to) {
    a.begin = permuted(a.begin, to);
    a.end = permuted(a.end, to);
    a.strides = permuted(a.strides, to);
    return true;
  });
  set.add(std::move(op));
}

// --- pad

/// How many elements an axis must have for `amount` in front of it, or behind. A reflection turns round once,
/// and does not copy the element at which it does.
Dim needed_extent(PadMode mode, const Dim& amount) {
  if (mode == PadMode::kConstant) return 0;
  const Dim one = min(amount, 1);  // none where there is nothing to copy
  return mode == PadMode::kReflect ? amount + one : one;
}

std::vector<TensorType> infer_pad(const Node& node, Function& function) {
  const auto& a = node.attrs_as<PadAttrs>();
  const TensorType& x = input_type(node, 0);
  TensorType result = x;
  require(a.before.size() == x.shape.size() && a.after.size() == x.shape.size(),
          "amounts need an entry for each axis of {}", x.str());
  for (size_t d = 0; d < x.shape.size(); ++d) {
    for (const Dim& amount : {a.before[d], a.after[d]}) {
      require(!amount.is_constant() || amount.value() >= 0, "an amount is negative");
      const Dim needed = needed_extent(a.mode, amount);
      if (needed == Dim(0)) continue;
      ops::require_at_least(x.shape[d] - needed, 0, function, node,
                            fmt::format("axis {} of {} is too short for that padding", d, x.str()));
    }
    result.shape[d] = x.shape[d] + a.before[d] + a.after[d];
  }
  return {result};
}

/// The input coordinate that position `i` (which may lie outside) copies.
Expr source_position(PadMode mode, Expr i, const Expr& extent) {
  switch (mode) {
    case PadMode::kEdge:
      return max(Expr(0), min(i, extent - 1));
    case PadMode::kWrap:
      return mod(i, extent);
    case PadMode::kReflect: {
      Expr low = max(i, -i);
      return min(low, (extent - 1) * 2 - low);
    }
    default:
      return i;
  }
}

/// Shorter rows are mostly vectors that reach over an end.
constexpr int64_t kLongRow = 96;

std::vector<Tensor> compute_pad(const Node& node, const std::vector<Tensor>& in) {
  const auto& a = node.attrs_as<PadAttrs>();
  const Tensor& x = in[0];
  auto body = [&](const std::vector<Expr>& i) {
    std::vector<Expr> at = i;
    Expr inside;
    for (size_t d = 0; d < i.size(); ++d) {
      if (a.before[d] == Dim(0) && a.after[d] == Dim(0)) continue;
      at[d] = source_position(a.mode, i[d] - Expr(a.before[d]), x.shape()[d]);
      Expr here = ge(at[d], 0) && lt(at[d], x.shape()[d]);
      inside = inside ? inside && here : here;
    }
    if (inside.get() == nullptr) return x(at);
    if (a.mode == PadMode::kConstant) return if_then_else(inside, x(at), const_of(x.dtype(), a.value));
    // Most of a long row is contiguous: said apart, it is read so.
    const size_t last = i.size() - 1;
    const bool is_long = input_type(node, 0).shape[last].constant().value_or(guess::kLong) >= kLongRow;
    if (at[last].same_as(i[last]) || !is_long) return x(at);
    std::vector<Expr> straight = at;
    straight[last] = i[last] - Expr(a.before[last]);
    return if_then_else(ge(straight[last], 0) && lt(straight[last], x.shape()[last]), x(straight), x(at));
  };
  return {compute(result_shape(node), body, "pad", Role::kPad)};
}

void add_pad(OpSet& set) {
  OpDef op = ops::define(op::pad, FusionClass::kInjective, LayoutBehaviour::kAxisRemap, {"data"});
  op.infer = infer_pad;
  op.compute = compute_pad;
  op.remap_axes = ops::remapper<PadAttrs>([](PadAttrs& a, const std::vector<int>& to) {
    a.before = permuted(a.before, to);
    a.after = permuted(a.after, to);
    return true;
  });
  set.add(std::move(op));
}

// --- broadcast_to, tile

void add_repeats(OpSet& set) {
  OpDef expand = ops::define(op::broadcast_to, FusionClass::kInjective,
                                               LayoutBehaviour::kNone, {"data"});
  expand.infer = [](const Node& node, Function& function) {
    const TensorType& x = input_type(node, 0);
    const auto& attrs = node.attrs_as<BroadcastToAttrs>();
    const Shape& shape = attrs.shape;
    require(x.shape.size() <= shape.size(), "{} does not broadcast to {}", x.str(), to_string(shape));
    for (const int64_t axis : attrs.open) ops::require_axis(axis, x.rank());
    size_t skip = shape.size() - x.shape.size();
    for (size_t d = 0; d < x.shape.size(); ++d) {
      if (x.shape[d] == Dim(1)) continue;
      if (ops::is_open(attrs, d)) {
        ops::require_repeatable(x.shape[d], shape[skip + d], function, node);
      } else {
        ops::unify(x.shape[d], shape[skip + d], function, node, "data and the shape to broadcast to");
      }
    }
    return std::vector<TensorType>{{x.dtype, shape}};
  };
  expand.compute = [](const Node& node, const std::vector<Tensor>& in) {
    auto body = [&](const std::vector<Expr>& i) {
      return ops::repeated_read(in[0], i, input_type(node, 0).shape, node.attrs_as<BroadcastToAttrs>());
    };
    return std::vector<Tensor>{compute(result_shape(node), body, "broadcast_to")};
  };
  set.add(std::move(expand));

  OpDef tile = ops::define(op::tile, FusionClass::kInjective, LayoutBehaviour::kAxisRemap, {"data"});
  tile.infer = [](const Node& node, Function&) {
    TensorType result = input_type(node, 0);
    const Shape& repeats = node.attrs_as<TileAttrs>().repeats;
    require(repeats.size() == result.shape.size(), "repeats need an entry for each axis of {}", result.str());
    for (size_t d = 0; d < repeats.size(); ++d) {
      require(!repeats[d].is_constant() || repeats[d].value() >= 0, "a repeat is negative");
      result.shape[d] = result.shape[d] * repeats[d];
    }
    return std::vector<TensorType>{result};
  };
  tile.compute = [](const Node& node, const std::vector<Tensor>& in) {
    const Shape& repeats = node.attrs_as<TileAttrs>().repeats;
    auto body = [&](const std::vector<Expr>& i) {
      std::vector<Expr> at = i;
      for (size_t d = 0; d < i.size(); ++d) {
        if (!(repeats[d] == Dim(1))) at[d] = mod(i[d], in[0].shape()[d]);
      }
      return in[0](at);
    };
    return std::vector<Tensor>{compute(result_shape(node), body, "tile")};
  };
  tile.remap_axes = ops::remapper<TileAttrs>([](TileAttrs& a, const std::vector<int>& to) {
    a.repeats = permuted(a.repeats, to);
    return true;
  });
  set.add(std::move(tile));
}

// --- nn.depth_to_space, nn.space_to_depth

void add_blocks(OpSet& set) {
  OpDef d2s =
      ops::define(nn::depth_to_space, FusionClass::kInjective, LayoutBehaviour::kNone, {"data"});
  d2s.infer = [](const Node& node, Function& function) {
    int64_t b = node.attrs_as<BlockAttrs>().block;
    TensorType t = input_type(node, 0);
    require(t.rank() == 4, "the data {} must have 4 dimensions", t.str());
    require(b > 0 && !provably_different(mod(t.shape[1], Dim(b) * b), 0),
            "{} channels do not make blocks of {}x{}", t.shape[1].str(), b, b);
    ops::unify(mod(t.shape[1], Dim(b) * b), 0, function, node, "channels beside whole blocks");
    t.shape = {t.shape[0], floordiv(t.shape[1], Dim(b) * b), t.shape[2] * b, t.shape[3] * b};
    return std::vector<TensorType>{t};
  };
  d2s.compute = [](const Node& node, const std::vector<Tensor>& in) {
    const auto& a = node.attrs_as<BlockAttrs>();
    std::vector<Expr> shape = result_shape(node);
    auto body = [&](const std::vector<Expr>& i) {
      Expr offset = mod(i[2], a.block) * a.block + mod(i[3], a.block);
      Expr c = a.depth_major ? offset * shape[1] + i[1] : i[1] * (a.block * a.block) + offset;
      return in[0]({i[0], c, floordiv(i[2], a.block), floordiv(i[3], a.block)});
    };
    return std::vector<Tensor>{compute(shape, body, "depth_to_space")};
  };
  set.add(std::move(d2s));

  OpDef s2d =
      ops::define(nn::space_to_depth, FusionClass::kInjective, LayoutBehaviour::kNone, {"data"});
  s2d.infer = [](const Node& node, Function& function) {
    int64_t b = node.attrs_as<BlockAttrs>().block;
    TensorType t = input_type(node, 0);
    require(t.rank() == 4, "the data {} must have 4 dimensions", t.str());
    require(b > 0 && !provably_different(mod(t.shape[2], b), 0) && !provably_different(mod(t.shape[3], b), 0),
            "{} does not divide into blocks of {}x{}", t.str(), b, b);
    for (const size_t axis : {size_t{2}, size_t{3}})
      ops::unify(mod(t.shape[axis], b), 0, function, node, "elements beside whole blocks");
    t.shape = {t.shape[0], t.shape[1] * (Dim(b) * b), floordiv(t.shape[2], b), floordiv(t.shape[3], b)};
    return std::vector<TensorType>{t};
  };
  s2d.compute = [](const Node& node, const std::vector<Tensor>& in) {
    const auto& a = node.attrs_as<BlockAttrs>();
    const int64_t b = a.block;
    auto body = [&](const std::vector<Expr>& i) {
      const Expr channels = in[0].shape()[1];
      const Expr offset = a.depth_major ? floordiv(i[1], channels) : mod(i[1], b * b);
      const Expr channel = a.depth_major ? mod(i[1], channels) : floordiv(i[1], b * b);
      return in[0]({i[0], channel, i[2] * b + floordiv(offset, b), i[3] * b + mod(offset, b)});
    };
    return std::vector<Tensor>{compute(result_shape(node), body, "space_to_depth")};
  };
  set.add(std::move(s2d));
}

}  // namespace

void add_movement_ops(OpSet& set) {
  add_transpose(set);
  add_concatenate(set);
  add_slice(set);
  add_pad(set);
  add_repeats(set);
  add_blocks(set);
}

}  // namespace gantry
