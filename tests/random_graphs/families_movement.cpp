// What moves elements, reads and writes them by index, or makes them of positions.
#include <algorithm>
#include <numeric>

#include "host/ops/movement.h"
#include "host/ops/scatter.h"
#include "tests/random_graphs/sketch.h"

namespace gantry::random_graphs {
namespace {

Value* anything(Sketch& s, int64_t low_rank, int64_t high_rank) {
  auto fits = [&](const Value& v) { return v.type.rank() >= low_rank && v.type.rank() <= high_rank; };
  Value* found = s.pick(fits);
  return found ? found : s.value(s.any_type(), low_rank, high_rank);
}

int64_t some_axis(Sketch& s, const Value& x) {
  return s.choices.below(x.type.rank());
}

void add_transpose(Sketch& s) {
  Value* x = anything(s, 2, 5);
  std::vector<int64_t> axes(x->type.shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (s.choices.chance(0.3))
    std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  else
    s.choices.shuffle(axes);
  s.transpose(x, axes);
}

void add_reshape(Sketch& s) {
  Value* x = anything(s, 0, 5);
  Shape shape = x->type.shape;
  const int64_t rank = x->type.rank();
  switch (s.choices.below(4)) {
    case 0:
      shape.insert(shape.begin() + s.choices.below(rank + 1), Dim(1));
      break;
    case 1: {  // neighbours become one
      if (rank < 2) break;
      const auto at = shape.begin() + s.choices.below(rank - 1);
      *at = *at * *(at + 1);
      shape.erase(at + 1);
      break;
    }
    case 2: {  // one becomes two
      if (rank < 1) break;
      const auto at = shape.begin() + s.choices.below(rank);
      if (!at->is_constant() || at->value() < 2) break;
      std::vector<int64_t> divisors;
      for (int64_t d = 1; d <= at->value(); ++d) {
        if (at->value() % d == 0) divisors.push_back(d);
      }
      const int64_t first = s.choices.of(divisors);
      *at = at->value() / first;
      shape.insert(at, Dim(first));
      break;
    }
    default:
      shape = {element_count(shape)};
  }
  if (shape.size() <= 5) s.reshape(x, shape);
}

void add_slice(Sketch& s) {
  Value* x = anything(s, 1, 4);
  s.add<StridedSliceAttrs>("strided_slice", {x}, [&](StridedSliceAttrs& a) {
    const Shape& shape = x->type.shape;
    a.begin.assign(shape.size(), Dim(0));
    a.end = shape;
    a.strides.assign(shape.size(), 1);
    for (size_t i = 0; i < shape.size(); ++i) {
      if (!shape[i].is_constant() || s.choices.chance(0.5)) continue;
      const int64_t extent = shape[i].value();
      if (s.choices.chance(0.25)) {
        a.begin[i] = extent - 1;
        a.end[i] = -1;
        a.strides[i] = -s.choices.between(1, 2);
        continue;
      }
      const int64_t begin = s.choices.below(extent);
      a.begin[i] = begin;
      a.end[i] = s.choices.between(begin + 1, extent);
      a.strides[i] = s.choices.chance(0.7) ? 1 : s.choices.between(2, 3);
    }
  });
}

/// All parts of an axis, as Split makes them.
void add_split(Sketch& s) {
  Value* x = anything(s, 1, 4);
  const auto axis = static_cast<size_t>(some_axis(s, *x));
  const Shape shape = x->type.shape;
  if (!shape[axis].is_constant() || shape[axis].value() < 2) return;
  const int64_t middle = s.choices.between(1, shape[axis].value() - 1);
  for (const auto& [begin, end] : {std::pair(int64_t{0}, middle), std::pair(middle, shape[axis].value())}) {
    s.add<StridedSliceAttrs>("strided_slice", {x}, [&](StridedSliceAttrs& a) {
      a.begin.assign(shape.size(), Dim(0));
      a.end = shape;
      a.strides.assign(shape.size(), 1);
      a.begin[axis] = begin;
      a.end[axis] = end;
    });
  }
}

void add_pad(Sketch& s) {
  Value* x = s.value(s.number_type(), 1, 4);
  s.add<PadAttrs>("pad", {x}, [&](PadAttrs& a) {
    a.mode = s.choices.of(
        {PadMode::kConstant, PadMode::kConstant, PadMode::kEdge, PadMode::kReflect, PadMode::kWrap});
    a.value = is_float(x->type.dtype) ? s.choices.of({0.0, 0.0, 1.5}) : 0.0;
    for (const Dim& d : x->type.shape) {
      const int64_t room = a.mode == PadMode::kReflect ? s.extent(d) - 1
                           : a.mode == PadMode::kWrap  ? s.extent(d)
                                                       : 3;
      for (Shape* side : {&a.before, &a.after})
        side->emplace_back(s.choices.chance(0.5) ? 0 : std::min<int64_t>(room, s.choices.between(0, 3)));
    }
  });
}

void add_concatenate(Sketch& s) {
  Value* x = anything(s, 1, 4);
  const auto axis = static_cast<size_t>(some_axis(s, *x));
  std::vector<Value*> parts{x};
  const int64_t count = s.choices.between(1, 3);
  for (int64_t i = 1; i <= count; ++i) {
    TensorType type = x->type;
    type.shape[axis] = s.choices.chance(0.3) ? type.shape[axis] : Dim(s.choices.between(1, 4));
    parts.push_back(s.choices.chance(0.15) ? x : s.operand(type, 0.4));
  }
  s.choices.shuffle(parts);
  s.add<AxisAttrs>("concatenate", parts, [&](AxisAttrs& a) { a.axis = static_cast<int64_t>(axis); });
}

void add_repeat(Sketch& s) {
  Value* x = anything(s, 1, 4);
  if (s.choices.chance(0.4)) {
    s.add<TileAttrs>("tile", {x}, [&](TileAttrs& a) {
      for (int i = 0; i < x->type.rank(); ++i)
        a.repeats.emplace_back(s.choices.chance(0.6) ? 1 : s.choices.between(2, 3));
    });
    return;
  }
  s.add<BroadcastToAttrs>("broadcast_to", {x}, [&](BroadcastToAttrs& a) {
    a.shape = x->type.shape;
    for (Dim& d : a.shape) {
      if (d == Dim(1)) d = s.dim();
    }
    if (a.shape.size() < 4 && s.choices.chance(0.5)) a.shape.insert(a.shape.begin(), s.dim());
  });
}

void add_blocks(Sketch& s) {
  const int64_t block = s.choices.between(1, 3);
  const bool to_space = s.choices.chance(0.6);
  auto fits = [&](const Value& v) {
    if (v.type.rank() != 4) return false;
    const auto is_multiple = [&](size_t axis, int64_t of) {
      const auto extent = v.type.shape[axis].constant();
      return extent && *extent % of == 0;
    };
    return to_space ? is_multiple(1, block * block) : is_multiple(2, block) && is_multiple(3, block);
  };
  Value* x = s.pick(fits);
  if (x == nullptr)
    x = s.parameter({s.float_type(),
                     {s.dim(), to_space ? block * block * s.choices.between(1, 2) : 2, 2 * block, block}});
  s.add<BlockAttrs>(to_space ? "nn.depth_to_space" : "nn.space_to_depth", {x}, [&](BlockAttrs& a) {
    a.block = block;
    a.depth_major = s.choices.chance(0.5);
  });
}

void add_trilu(Sketch& s) {
  s.add<TriluAttrs>("trilu", {anything(s, 2, 4)}, [&](TriluAttrs& a) {
    a.upper = s.choices.chance(0.5);
    a.k = s.choices.between(-2, 2);
  });
}

DType index_type(Sketch& s) {
  return s.choices.of({DType::kI64, DType::kI64, DType::kI32});
}

void add_gather(Sketch& s) {
  Value* x = anything(s, 1, 4);
  const int64_t axis = some_axis(s, *x);
  const DType dtype = index_type(s);
  if (s.choices.chance(0.6)) {
    const int64_t rank = s.choices.below(x->type.rank() > 3 ? 2 : 3);
    Value* indices = s.operand({dtype, s.shape(rank)}, 0.6);
    s.add<AxisAttrs>("gather", {x, indices}, [&](AxisAttrs& a) { a.axis = axis; });
  } else if (s.choices.chance(0.5)) {
    Shape shape = x->type.shape;
    shape[static_cast<size_t>(axis)] = s.choices.between(1, 6);
    Value* indices = s.operand({dtype, shape}, 0.6);
    s.add<AxisAttrs>("gather_elements", {x, indices}, [&](AxisAttrs& a) { a.axis = axis; });
  } else {
    Shape shape = s.shape(s.choices.between(0, 1));
    shape.emplace_back(s.choices.between(1, x->type.rank()));
    s.add<GatherNdAttrs>("gather_nd", {x, s.operand({dtype, shape}, 0.6)}, [](GatherNdAttrs&) {});
  }
}

void add_scatter(Sketch& s) {
  Value* x = s.value(s.number_type(), 1, 4);
  const DType dtype = x->type.dtype;
  auto attrs = std::make_shared<ScatterAttrs>();
  attrs->reduction =
      s.choices.of({ScatterReduction::kNone, ScatterReduction::kNone, ScatterReduction::kAdd,
                    ScatterReduction::kMultiply, ScatterReduction::kMax, ScatterReduction::kMin});
  if (s.choices.chance(0.5)) {
    attrs->axis = some_axis(s, *x);
    Shape shape = x->type.shape;
    shape[static_cast<size_t>(attrs->axis)] = s.choices.between(1, 5);
    s.add("scatter_elements", {x, s.operand({index_type(s), shape}), s.operand({dtype, shape})}, attrs);
    return;
  }
  const int64_t depth = s.choices.between(1, x->type.rank()), rows = s.choices.between(1, 5);
  Shape updates{rows};
  updates.insert(updates.end(), x->type.shape.begin() + depth, x->type.shape.end());
  s.add("scatter_nd", {x, s.operand({index_type(s), {rows, depth}}), s.operand({dtype, updates})}, attrs);
}

void add_one_hot(Sketch& s) {
  Value* indices = s.operand({DType::kI64, s.shape(s.choices.between(0, 2))}, 0.2);
  Value* values = s.constant({s.number_type(), {2}});
  s.add<OneHotAttrs>("one_hot", {indices, values}, [&](OneHotAttrs& a) {
    a.axis = s.choices.below(indices->type.rank() + 1);
    a.depth = s.choices.between(1, 6);
  });
}

void add_positions(Sketch& s) {
  if (s.choices.chance(0.5)) {
    s.add<DimsToTensorAttrs>("dims_to_tensor", {}, [&](DimsToTensorAttrs& a) {
      for (int64_t i = s.choices.between(1, 4); i-- > 0;) a.dims.push_back(s.dim() + s.choices.below(2));
    });
    return;
  }
  s.add<ArangeAttrs>("arange", {}, [&](ArangeAttrs& a) {
    a.start = s.choices.between(-3, 3);
    a.step = s.choices.between(1, 3);
    a.count = s.dim();
    a.dtype = s.choices.of({DType::kI64, DType::kF32, DType::kI32});
  });
}

}  // namespace

std::vector<Family> movement_families() {
  return {{"transpose", 5, add_transpose}, {"reshape", 5, add_reshape},   {"slice", 4, add_slice},
          {"split", 2, add_split},         {"pad", 3, add_pad},           {"concatenate", 4, add_concatenate},
          {"repeat", 3, add_repeat},       {"blocks", 1.5, add_blocks},   {"trilu", 1, add_trilu},
          {"gather", 4, add_gather},       {"scatter", 1.5, add_scatter}, {"one hot", 1, add_one_hot},
          {"positions", 1, add_positions}};
}

}  // namespace gantry::random_graphs
