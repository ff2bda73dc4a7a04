// What the cleaning passes look for, and steps that are one op.
#include <cmath>

#include "host/ops/elementwise.h"
#include "host/ops/movement.h"
#include "host/ops/norm.h"
#include "host/ops/op.h"
#include "host/ops/reduce.h"
#include "tests/random_graphs/images.h"
#include "tests/random_graphs/sketch.h"

namespace gantry::random_graphs {
namespace {

Value* float_value(Sketch& s, int64_t low_rank, int64_t high_rank) {
  return s.value(s.choices.chance(0.9) ? DType::kF32 : DType::kF64, low_rank, high_rank);
}

/// The operands in either order.
Value* either_way(Sketch& s, const char* op, Value* a, Value* b) {
  return s.choices.chance(0.5) ? s.add(op, {a, b}) : s.add(op, {b, a});
}

void plant_nothing_done(Sketch& s) {
  Value* x = s.pick([](const Value&) { return true; });
  switch (s.choices.below(5)) {
    case 3:
      s.add(s.choices.of({"multiply", "divide", "power"}), {x, s.scalar(x->type.dtype, 1)});
      break;
    case 0:
      s.add(s.choices.of({"identity", "nn.dropout"}), {x});
      break;
    case 1:
      s.add<CastAttrs>("cast", {x}, [&](CastAttrs& a) { a.to = x->type.dtype; });
      break;
    case 2:
      s.reshape(x, x->type.shape);
      break;
    default:
      s.add<PadAttrs>("pad", {x},
                      [&](PadAttrs& a) { a.before = a.after = Shape(x->type.shape.size(), Dim(0)); });
  }
}

void plant_constants(Sketch& s) {
  const Shape shape = {s.choices.between(1, 6), s.choices.between(1, 6)};
  Value* a = s.constant({DType::kF32, shape});
  a = s.choices.chance(0.5) ? s.add("exp", {a}) : s.transpose(a, {1, 0});
  if (s.choices.chance(0.5))
    a = either_way(s, s.choices.of({"add", "multiply", "maximum"}), a, s.constant(a->type));
  if (s.choices.chance(0.3)) s.reshape(a, {element_count(a->type.shape)});
  Value* x = s.value(DType::kF32, 1, 1);
  if (s.choices.chance(0.5)) return;
  Value* sum = s.add<ReduceAttrs>("sum", {x}, [](ReduceAttrs& r) { r.axes = {0}; });
  s.add("add", {a, s.reshape(sum, {Dim(1), Dim(1)})});
}

/// A node again, on the same operands.
void plant_duplicate(Sketch& s) {
  Value* known =
      s.pick([](const Value& v) { return v.producer != nullptr && v.producer->results.size() == 1; });
  if (known == nullptr) return;
  const Node& node = *known->producer;
  Value* again = s.add(node.op->name, node.inputs, node.attrs);
  if (is_float(again->type.dtype) && s.choices.chance(0.5)) s.add("add", {known, s.add("tanh", {again})});
}

void plant_gelu(Sketch& s) {
  Value* x = float_value(s, 1, 4);
  const DType dtype = x->type.dtype;
  const double third = s.choices.chance(0.1) ? 0.4 : 0.5;  // not quite
  Value* half = s.scalar(dtype, third);
  Value* erf = s.choices.chance(0.5) ? s.add("divide", {x, s.scalar(dtype, std::sqrt(2.0))})
                                     : either_way(s, "multiply", x, s.scalar(dtype, std::sqrt(0.5)));
  erf = s.add("erf", {erf});
  if (s.choices.chance(0.3)) {
    Value* sum = either_way(s, "add", either_way(s, "multiply", erf, half), s.scalar(dtype, 0.5));
    either_way(s, "multiply", sum, x);
    return;
  }
  Value* sum = either_way(s, "add", erf, s.scalar(dtype, 1));
  switch (s.choices.below(3)) {
    case 0:
      either_way(s, "multiply", either_way(s, "multiply", x, half), sum);
      break;
    case 1:
      either_way(s, "multiply", either_way(s, "multiply", x, sum), half);
      break;
    default:
      either_way(s, "multiply", either_way(s, "multiply", sum, half), x);
  }
}

void plant_layer_norm(Sketch& s) {
  Value* x = float_value(s, 1, 4);
  const DType dtype = x->type.dtype;
  const int64_t rank = x->type.rank(), axis = s.choices.chance(0.7) ? rank - 1 : s.choices.below(rank);
  auto mean = [&](Value* of) {
    return s.add<ReduceAttrs>("mean", {of}, [&](ReduceAttrs& a) {
      for (int64_t i = axis; i < rank; ++i) a.axes.push_back(i);
    });
  };
  Value* difference = s.add("subtract", {x, mean(x)});
  Value* square = s.choices.chance(0.6) ? s.add("multiply", {difference, difference})
                                        : s.add("power", {difference, s.scalar(dtype, 2)});
  Value* root = s.add("sqrt", {either_way(s, "add", mean(square), s.scalar(dtype, 1e-5))});
  Value* y = s.choices.chance(0.6) ? s.add("divide", {difference, root})
                                   : either_way(s, "multiply", difference, s.add("reciprocal", {root}));
  Shape slice(x->type.shape.begin() + axis, x->type.shape.end());
  if (s.choices.chance(0.3)) slice = {slice.back()};
  if (s.choices.chance(0.8)) y = either_way(s, "multiply", y, s.operand({dtype, slice}, 0.9));
  if (s.choices.chance(0.8)) y = either_way(s, "add", y, s.operand({dtype, slice}, 0.9));
  if (s.choices.chance(0.15)) s.add("nn.relu", {difference});  // a step that is read outside
}

/// Of the channels, the first are normalised, the others scaled.
void plant_split_norm(Sketch& s) {
  Value* x = image(s, DType::kF32, s.choices.between(1, 2));
  const Shape shape = x->type.shape;
  const int64_t channels = shape[1].value();
  if (channels < 2) return;
  const int64_t cut = s.choices.between(1, channels - 1);
  auto part = [&](int64_t begin, int64_t end) {
    return s.add<StridedSliceAttrs>("strided_slice", {x}, [&](StridedSliceAttrs& a) {
      a.begin.assign(shape.size(), Dim(0));
      a.end = shape;
      a.strides.assign(shape.size(), 1);
      a.begin[1] = begin;
      a.end[1] = end;
    });
  };
  const TensorType vector{DType::kF32, {cut}};
  Value* first = s.add<GroupNormAttrs>(
      "nn.instance_norm", {part(0, cut), s.constant(vector), s.constant(vector)}, [](GroupNormAttrs&) {});
  Shape others(shape.size() - 1, Dim(1));
  others[0] = channels - cut;
  Value* rest = s.add("multiply", {part(cut, channels), s.constant({DType::kF32, others})});
  rest = s.add("add", {rest, s.constant({DType::kF32, others})});
  s.add<AxisAttrs>("concatenate", {first, rest}, [](AxisAttrs& a) { a.axis = 1; });
}

/// Elementwise nodes behind a view of what something computes.
void plant_view_between(Sketch& s) {
  Value* x = float_value(s, 2, 3);
  const int64_t rank = x->type.rank();
  Value* y = s.choices.chance(0.5)
                 ? s.add<SoftmaxAttrs>("nn.softmax", {x}, [&](SoftmaxAttrs& a) { a.axis = rank - 1; })
                 : s.add(s.choices.of({"exp", "tanh", "nn.relu"}), {x});
  Shape shape = y->type.shape;
  if (s.choices.chance(0.6)) {
    shape.insert(shape.end(), static_cast<size_t>(s.choices.between(1, 2)), Dim(1));
  } else {
    shape[0] = shape[0] * shape[1];
    shape.erase(shape.begin() + 1);
  }
  y = s.reshape(y, shape);
  if (s.choices.chance(0.5)) y = s.add("multiply", {y, s.scalar(x->type.dtype, 0.5)});
  Value* z = s.add(s.choices.of({"sigmoid", "nn.relu", "tanh"}), {y});
  if (s.choices.chance(0.4)) s.add("multiply", {y, z});
}

void plant_moved_twice(Sketch& s) {
  Value* x = s.value(s.any_type(), 3, 4);
  std::vector<int64_t> axes{0, 1, 2};
  if (x->type.rank() == 4) axes.push_back(3);
  const std::vector<int64_t> first = axes;
  s.choices.shuffle(axes);
  Value* y = s.transpose(x, axes);
  if (s.choices.chance(0.4)) {
    std::vector<int64_t> back(axes.size());
    for (size_t i = 0; i < axes.size(); ++i) back[static_cast<size_t>(axes[i])] = static_cast<int64_t>(i);
    axes = back;
  } else {
    s.choices.shuffle(axes);
  }
  y = s.transpose(y, axes);
  const Shape shape = y->type.shape;
  y = s.reshape(y, {element_count(shape)});
  y = s.reshape(y, {shape[0], element_count({shape.begin() + 1, shape.end()})});
  if (is_float(y->type.dtype)) s.add("nn.relu", {y});
}

/// Several nodes of f16 or bf16 in a row.
void plant_narrow_floats(Sketch& s) {
  const DType dtype = s.choices.of({DType::kF16, DType::kBF16});
  Value* x = s.value(dtype, 1, 4);
  for (int64_t i = s.choices.between(1, 4); i-- > 0;) {
    x = s.choices.chance(0.5) ? s.add(s.choices.of({"exp", "tanh", "nn.relu", "sigmoid"}), {x})
                              : either_way(s, s.choices.of({"add", "multiply"}), x, s.operand(x->type));
    if (s.choices.chance(0.2)) s.add<CastAttrs>("cast", {x}, [&](CastAttrs& a) { a.to = s.any_type(); });
  }
}

}  // namespace

std::vector<Family> small_patterns() {
  return {{"nothing done", 3, plant_nothing_done},  {"constants", 2, plant_constants},
          {"duplicate", 3, plant_duplicate},        {"gelu", 3, plant_gelu},
          {"layer norm", 3, plant_layer_norm},      {"split norm", 2, plant_split_norm},
          {"view between", 3, plant_view_between},  {"moved twice", 3, plant_moved_twice},
          {"narrow floats", 2, plant_narrow_floats}};
}

}  // namespace gantry::random_graphs
