// Matrix products, normalisations of rows, recurrences.
#include "host/ops/dense.h"
#include "host/ops/norm.h"
#include "host/ops/recurrent.h"
#include "tests/random_graphs/sketch.h"

namespace gantry::random_graphs {
namespace {

void add_dense(Sketch& s) {
  Value* x = s.value(s.float_type(), 1, 4);
  const Dim depth = x->type.shape.back();
  const int64_t units = s.choices.chance(0.85) ? s.choices.between(1, 9) : s.choices.between(15, 40);
  const TensorType weight{x->type.dtype, {depth, units}};
  Value* w = s.choices.chance(0.85) && depth.is_constant() ? s.constant(weight, 0.5) : s.operand(weight, 0);
  Value* y = s.add<DenseAttrs>("nn.dense", {x, w}, [&](DenseAttrs& a) { a.units = units; });
  if (s.choices.chance(0.4)) y = s.add("add", {y, s.operand({x->type.dtype, {units}}, 0.9)});
  if (s.choices.chance(0.2)) s.add("nn.relu", {y});
}

void add_matmul(Sketch& s) {
  Value* a = s.value(s.float_type(), 1, 4);
  const DType dtype = a->type.dtype;
  const Shape& from = a->type.shape;
  const bool transpose_a = from.size() >= 2 && s.choices.chance(0.15), transpose_b = s.choices.chance(0.2);
  Shape shape{from[transpose_a ? from.size() - 2 : from.size() - 1], s.dim()};
  if (transpose_b) std::swap(shape[0], shape[1]);
  if (!transpose_b && s.choices.chance(0.1)) {
    shape.pop_back();
  } else if (from.size() > 2 && s.choices.chance(0.6)) {
    // Leading axes, some of which are broadcast.
    for (size_t i = from.size() - 2; i-- > 0;) {
      if (s.choices.chance(0.15)) break;
      shape.insert(shape.begin(), s.choices.chance(0.2) ? Dim(1) : from[i]);
    }
  } else if (s.choices.chance(0.1)) {
    shape.insert(shape.begin(), s.dim());
  }
  Value* b = s.operand({dtype, shape}, 0.4);
  s.add<MatmulAttrs>("matmul", {a, b}, [&](MatmulAttrs& m) {
    m.transpose_a = transpose_a;
    m.transpose_b = transpose_b && shape.size() >= 2;
  });
}

void add_softmax(Sketch& s) {
  Value* x = s.value(s.float_type(), 1, 4);
  const int64_t rank = x->type.rank();
  s.add<SoftmaxAttrs>(
      s.choices.of({"nn.softmax", "nn.softmax", "nn.softmax", "nn.log_softmax", "nn.hardmax"}), {x},
      [&](SoftmaxAttrs& a) { a.axis = s.choices.chance(0.6) ? rank - 1 : s.choices.below(rank); });
}

void add_row_norm(Sketch& s) {
  Value* x = s.value(s.float_type(), 1, 4);
  const DType dtype = x->type.dtype;
  const int64_t rank = x->type.rank();
  const int64_t axis = s.choices.chance(0.7) ? rank - 1 : s.choices.below(rank);
  if (s.choices.chance(0.3)) {
    s.add<LpNormAttrs>("nn.lp_normalize", {x}, [&](LpNormAttrs& a) {
      a.axis = axis;
      a.p = s.choices.between(1, 2);
    });
    return;
  }
  const Shape slice(x->type.shape.begin() + axis, x->type.shape.end());
  std::vector<Value*> inputs{x, s.operand({dtype, slice}, 0.9)};
  if (s.choices.chance(0.7)) inputs.push_back(s.operand({dtype, slice}, 0.9));
  s.add<LayerNormAttrs>("nn.layer_norm", inputs, [&](LayerNormAttrs& a) {
    a.axis = axis;
    a.epsilon = s.choices.of({1e-5, 1e-3});
  });
}

/// As the importer makes them: the projection of all steps, then the steps.
void add_recurrence(Sketch& s) {
  const Dim steps = s.choices.between(1, 5), sequences = s.choices.chance(0.5) ? s.dim() : Dim(1);
  const int64_t hidden = s.choices.between(1, 9), directions = s.choices.between(1, 2);
  const int kind = static_cast<int>(s.choices.below(3));
  const int64_t gates = std::vector<int64_t>{4, 3, 1}[static_cast<size_t>(kind)];
  const auto f32 = [](Shape shape) { return TensorType{DType::kF32, std::move(shape)}; };
  Value* x = s.operand(f32({steps, sequences, s.choices.between(1, 6)}), 0);
  const int64_t columns = directions * gates * hidden;
  Value* projection =
      s.add<DenseAttrs>("nn.dense", {x, s.constant(f32({x->type.shape.back(), columns}), 0.4)},
                        [&](DenseAttrs& a) { a.units = columns; });
  const TensorType weight = f32({directions, hidden, gates * hidden}),
                   state = f32({directions, sequences, hidden});
  std::vector<Value*> inputs{
      projection, s.choices.chance(0.9) ? s.constant(weight, 0.3) : s.parameter(weight), s.operand(state)};
  if (kind == 0) inputs.push_back(s.operand(state));
  const bool has_lengths = s.choices.chance(0.2) && sequences.is_constant();
  if (has_lengths) {
    std::vector<double> lengths;
    for (int64_t i = 0; i < sequences.value(); ++i)
      lengths.push_back(static_cast<double>(s.choices.between(0, steps.value())));
    inputs.push_back(s.constant_of({DType::kI32, {sequences}}, lengths));
  }
  const bool before_reset = kind == 1 && s.choices.chance(0.5);
  if (before_reset && s.choices.chance(0.5)) {
    if (!has_lengths) inputs.push_back(nullptr);
    inputs.push_back(s.constant(f32({directions, hidden})));
  }
  s.add<RecurrenceAttrs>(
      std::vector{"nn.lstm_recurrence", "nn.gru_recurrence", "nn.rnn_recurrence"}[static_cast<size_t>(kind)],
      inputs, [&](RecurrenceAttrs& a) {
        a.reverse = directions == 1 && s.choices.chance(0.3);
        a.linear_before_reset = before_reset;
        a.couple_gates = kind == 0 && s.choices.chance(0.2);
        a.relu = kind == 2 && s.choices.chance(0.3);
      });
}

}  // namespace

std::vector<Family> product_families() {
  return {{"dense", 6, add_dense},
          {"matmul", 5, add_matmul},
          {"softmax", 3, add_softmax},
          {"row norm", 3, add_row_norm},
          {"recurrence", 1, add_recurrence}};
}

}  // namespace gantry::random_graphs
