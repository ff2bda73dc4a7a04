// Attention, and products whose operands are moved, scaled or repeated.
#include "host/ops/dense.h"
#include "host/ops/movement.h"
#include "host/ops/norm.h"
#include "tests/random_graphs/sketch.h"

namespace gantry::random_graphs {
namespace {

/// Extents of one attention.
struct Heads {
  Dim batch = 1;
  int64_t heads = 1, shared = 1;  ///< heads of keys, and of queries for each of them
  int64_t queries = 8, keys = 8, depth = 2, width = 2;
};

Heads choose_heads(Sketch& s) {
  Heads h;
  h.batch = s.choices.chance(0.3) ? s.dim() : Dim(s.choices.between(1, 2));
  h.heads = s.choices.between(1, 2);
  h.shared = s.choices.chance(0.3) ? s.choices.between(2, 3) : 1;
  h.queries = s.choices.between(s.choices.chance(0.1) ? 3 : 8, 9);  // of few queries it stays as it is
  h.keys = s.choices.chance(0.6) ? h.queries : s.choices.between(1, 9);
  h.depth = s.choices.between(1, 5);
  h.width = s.choices.chance(0.5) ? h.depth : s.choices.between(1, 5);
  return h;
}

Value* dense(Sketch& s, Value* x, int64_t units) {
  Value* y = s.add<DenseAttrs>("nn.dense", {x, s.constant({DType::kF32, {x->type.shape.back(), units}}, 0.5)},
                               [&](DenseAttrs& a) { a.units = units; });
  return s.choices.chance(0.5) ? s.add("add", {y, s.constant({DType::kF32, {units}})}) : y;
}

/// (batch, heads, rows, features), by a projection that is cut into heads, or given so.
Value* operand(Sketch& s, const Heads& h, Value* data, int64_t heads, int64_t rows, int64_t features) {
  if (data == nullptr || !(data->type.shape[1] == Dim(rows)))
    return s.parameter({DType::kF32, {h.batch, heads, rows, features}});
  Value* y = s.reshape(dense(s, data, heads * features), {h.batch, rows, heads, features});
  return s.transpose(y, {0, 2, 1, 3});
}

/// Each head for `times` neighbours.
Value* repeated(Sketch& s, Value* x, int64_t times) {
  if (times == 1) return x;
  Shape shape = x->type.shape;
  shape.insert(shape.begin() + 2, Dim(1));
  Value* y = s.reshape(x, shape);
  shape[2] = times;
  y = s.add<BroadcastToAttrs>("broadcast_to", {y}, [&](BroadcastToAttrs& a) { a.shape = shape; });
  return s.reshape(y, {shape[0], shape[1] * times, shape[3], shape[4]});
}

Value* scaled(Sketch& s, Value* x) {
  if (s.choices.chance(0.5)) return s.add("divide", {x, s.scalar(DType::kF32, s.choices.of({2.0, 1.5}))});
  return s.add("multiply", {x, s.scalar(DType::kF32, s.choices.of({0.5, 0.25, 0.3}))});
}

/// A bias or a mask that meets the scores, broadcast along some axes.
Value* masked(Sketch& s, Value* scores) {
  Shape shape = scores->type.shape;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (s.choices.chance(0.4)) shape[i] = 1;
  }
  if (s.choices.chance(0.3)) shape.erase(shape.begin(), shape.begin() + s.choices.between(1, 3));
  if (s.choices.chance(0.5)) return s.add("add", {scores, s.operand({DType::kF32, shape}, 0.3)});
  // What is masked entirely has no softmax.
  Value* mask = s.operand({DType::kBool, shape}, 0.3);
  Value* score = s.scalar(DType::kF32, s.choices.of({-1e9, -5.0, -3e4}));
  return s.choices.chance(0.5) ? s.add("where", {mask, score, scores})
                               : s.add("where", {mask, scores, score});
}

void plant_attention(Sketch& s) {
  const Heads h = choose_heads(s);
  Value* data = nullptr;
  if (s.choices.chance(0.6)) data = s.parameter({DType::kF32, {h.batch, h.queries, s.choices.between(1, 8)}});
  Value* q = operand(s, h, data, h.heads * h.shared, h.queries, h.depth);
  Value* k = repeated(s, operand(s, h, data, h.heads, h.keys, h.depth), h.shared);
  Value* v = repeated(s, operand(s, h, data, h.heads, h.keys, h.width), h.shared);
  if (s.choices.chance(0.3)) q = scaled(s, q);
  Value* scores = nullptr;
  if (s.choices.chance(0.3)) {
    scores = s.add<MatmulAttrs>("matmul", {q, k}, [](MatmulAttrs& a) { a.transpose_b = true; });
  } else {
    k = s.transpose(k, {0, 1, 3, 2});
    if (s.choices.chance(0.3)) k = scaled(s, k);
    scores = s.add("matmul", {q, k});
  }
  if (s.choices.chance(0.5)) scores = scaled(s, scores);
  for (int64_t masks = s.choices.below(3); masks-- > 0;) scores = masked(s, scores);
  if (s.choices.chance(0.15)) scores = scaled(s, scores);
  Value* weights = s.add<SoftmaxAttrs>("nn.softmax", {scores}, [](SoftmaxAttrs& a) { a.axis = 3; });
  Value* y = s.add("matmul", {weights, v});
  if (s.choices.chance(0.6)) {
    y = s.transpose(y, {0, 2, 1, 3});
    s.reshape(y, {h.batch, h.queries, h.heads * h.shared * h.width});
  }
}

/// Three axes instead of four, one head an image; two projections that meet in a product.
void plant_projections(Sketch& s) {
  const Dim batch = s.choices.chance(0.5) ? s.dim() : Dim(1);
  const int64_t rows = s.choices.between(2, 9), features = s.choices.between(1, 6);
  Value* x = s.parameter({DType::kF32, {batch, rows, s.choices.between(1, 6)}});
  Value *q = dense(s, x, features), *k = dense(s, x, features);
  k = s.transpose(k, {0, 2, 1});
  Value* scores = s.add("matmul", {q, k});
  if (s.choices.chance(0.6)) {
    Value* weights = s.add<SoftmaxAttrs>("nn.softmax", {scores}, [](SoftmaxAttrs& a) { a.axis = 2; });
    s.add("matmul", {weights, dense(s, x, s.choices.between(1, 6))});
  }
}

/// A right operand that is transposed, scaled or repeated before the product.
void plant_right_operand(Sketch& s) {
  const Dim batch = s.choices.between(1, 2);
  const int64_t groups = s.choices.between(1, 2), times = s.choices.between(1, 3),
                m = s.choices.between(1, 9), k = s.choices.between(1, 9), n = s.choices.between(1, 9);
  Value* a = s.operand({DType::kF32, {batch, groups * times, m, k}}, 0);
  const bool turned = s.choices.chance(0.6);
  Value* b = s.operand({DType::kF32, {batch, groups, turned ? n : k, turned ? k : n}}, 0.2);
  b = repeated(s, b, times);
  if (s.choices.chance(0.3)) b = scaled(s, b);
  if (turned) b = s.transpose(b, {0, 1, 3, 2});
  if (s.choices.chance(0.4)) b = scaled(s, b);
  Value* y = s.add("matmul", {a, b});
  if (s.choices.chance(0.3)) s.add("nn.relu", {y});
}

}  // namespace

std::vector<Family> attention_patterns() {
  return {{"attention", 5, plant_attention},
          {"projections", 3, plant_projections},
          {"right operand", 3, plant_right_operand}};
}

}  // namespace gantry::random_graphs
