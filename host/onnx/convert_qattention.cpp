// com.microsoft's QAttention: self-attention whose projections are one product of quantised operands.
#include <cmath>
#include <limits>

#include "host/onnx/converters.h"
#include "host/onnx/quantize.h"
#include "host/onnx/quantized_product.h"
#include "host/ops/dense.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"
#include "host/ops/norm.h"

namespace gantry {
namespace {

struct Heads {
  Dim batch, length;  ///< of the queries
  int64_t count, width;
};

/// Part 0, 1 or 2 (query, key, value) of the projections (batch, length, 3 * heads * width), as (batch, heads,
/// length, width).
Value* part(NodeImport& n, Value* projections, const Heads& h, int64_t i) {
  const int64_t hidden = h.count * h.width;
  Value* x = n.slice(projections, 2, i * hidden, (i + 1) * hidden);
  return n.transpose(n.reshape(x, {h.batch, h.length, h.count, h.width}), {0, 2, 1, 3});
}

Value* concatenated(NodeImport& n, std::vector<Value*> parts, int64_t axis) {
  auto attrs = std::make_shared<AxisAttrs>();
  attrs->axis = axis;
  return n.add(op::concatenate, std::move(parts), attrs);
}

/// Entry i of past (2, batch, heads, past length, width) before the keys or values.
Value* with_past(NodeImport& n, Value* x, int64_t i) {
  if (!n.has(8)) return x;
  Value* past = n.slice(n.input(8), 0, i, i + 1);
  Shape shape = past->type.shape;
  shape.erase(shape.begin());
  return concatenated(n, {n.reshape(past, shape), x}, 2);
}

/// start, start + 1, … as i32.
Value* positions(NodeImport& n, const Dim& start, const Dim& count) {
  auto attrs = std::make_shared<ArangeAttrs>();
  attrs->start = start;
  attrs->step = 1;
  attrs->count = count;
  attrs->dtype = DType::kI32;
  return n.add(op::arange, {}, attrs);
}

/// Whether a key counts: by its sequence's length (batch), or by ones in (batch, keys) or (batch, queries, keys).
/// Aligned with the scores (batch, heads, queries, keys).
Value* allowed(NodeImport& n, const Heads& h, const Dim& keys) {
  Value* mask = n.input(5);
  const int rank = mask->type.rank();
  if (rank == 1 && mask->type.shape[0] == h.batch)
    return n.add(op::less, {positions(n, 0, keys), n.reshape(mask, {h.batch, 1, 1, 1})});
  if (rank != 2 && rank != 3) n.unsupported(UnsupportedKind::kAttribute, "a mask of type {}", mask->type.str());
  Value* counts = n.add(op::greater, {mask, n.scalar(DType::kI32, 0)});
  return n.reshape(counts, rank == 2 ? Shape{h.batch, 1, 1, keys} : Shape{h.batch, 1, h.length, keys});
}

Value* masked(NodeImport& n, Value* scores, const Heads& h, const Dim& keys) {
  const double filter = n.number("mask_filter_value", -10000);
  Value* low = n.scalar(DType::kF32, filter);
  if (n.has(5)) {
    Value* bias = n.add(op::where, {allowed(n, h, keys), n.scalar(DType::kF32, 0), low});
    scores = n.add(op::add, {scores, bias});
  }
  if (n.integer("unidirectional", 0) == 0) return scores;
  // A query sees the keys up to its own, which follow those of the past.
  Value* own = n.reshape(positions(n, keys - h.length, h.length), {h.length, 1});
  Value* seen = n.add(op::less_equal, {positions(n, 0, keys), own});
  return n.add(op::where, {seen, scores, n.scalar(DType::kF32, std::numeric_limits<float>::lowest())});
}

Value* with_leading_one(NodeImport& n, Value* x) {
  Shape shape = x->type.shape;
  shape.insert(shape.begin(), 1);
  return n.reshape(x, shape);
}

Value* attend(NodeImport& n, const Heads& h, Value* query, Value* key, Value* value) {
  auto products = std::make_shared<MatmulAttrs>();
  products->transpose_b = true;
  Value* scores = n.add(op::matmul, {query, key}, products);
  const double scale = n.number("scale", 0);
  const double factor = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(h.width));
  scores = n.add(op::multiply, {scores, n.scalar(DType::kF32, factor)});
  auto softmax = std::make_shared<SoftmaxAttrs>();
  softmax->axis = 3;
  Value* weights = n.add(nn::softmax, {masked(n, scores, h, key->type.shape[2])}, softmax);
  Value* y = n.add(op::matmul, {weights, value}, std::make_shared<MatmulAttrs>());
  return n.reshape(n.transpose(y, {0, 2, 1, 3}), {h.batch, h.length, h.count * h.width});
}

void convert_qattention(NodeImport& n) {
  if (n.integer("do_rotary", 0) != 0) n.unsupported(UnsupportedKind::kAttribute, "do_rotary");
  const TensorType data = n.type(0), weight = n.type(1);
  const int64_t heads = n.integer("num_heads", 0);
  if (data.rank() != 3 || weight.rank() != 2) n.fail("takes data of 3 dimensions and a weight of 2");
  const Dim columns = weight.shape[1];
  if (!columns.is_constant()) n.unsupported(UnsupportedKind::kRunTimeValue, "dimensions of its weight");
  if (heads <= 0 || columns.value() % (3 * heads) != 0)
    n.fail("{} columns of its weight do not make three parts of {} heads", columns.value(), heads);
  const Heads h{data.shape[0], data.shape[1], heads, columns.value() / (3 * heads)};
  const Quantized x{n.input(0), n.input(3), n.optional_input(6)}, w{n.input(1), n.input(4), n.optional_input(7)};
  Value* projections = n.add(op::add, {scaled_product(n, x, w), n.input(2)});
  Value* key = with_past(n, part(n, projections, h, 1), 0);
  Value* value = with_past(n, part(n, projections, h, 2), 1);
  n.set(0, attend(n, h, part(n, projections, h, 0), key, value));
  if (n.wants(1)) n.set(1, concatenated(n, {with_leading_one(n, key), with_leading_one(n, value)}, 0));
}

}  // namespace

void add_qattention_converters(ConverterTable& table) {
  table.push_back({"QAttention", 1, convert_qattention, kMicrosoft});
}

}  // namespace gantry
