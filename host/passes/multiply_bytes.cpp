// Products of integers that are bytes less a zero point, with constant weights that i8 holds, become nn.dense
// of u8 by i8, from whose sums the zero point's share goes: sum (x - z) w = sum x w - z sum w. Exact, as i32
// wraps around alike on both sides. Data in i8 are u8 with the first bit inverted, less 128. After
// fold_constant, which has subtracted the weights' zero point.
//
//   %1 = subtract(cast(%x: u8, i32), %z)      =>   %1 = nn.dense(%x, @w: i8)
//   %2 = matmul(%1, @w: i32)                       %2 = subtract(%1, multiply(%z, const of the sums of w's
//   columns))
//
// Products of floats likewise, where all factors are such integers and i32 holds the sums, which floats may
// round:
//
//   %2 = nn.dense(cast(%1, f32), @w: f32)     =>   as above, then cast(…, f32)
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "host/ops/bitcast.h"
#include "host/ops/dense.h"
#include "host/ops/elementwise.h"
#include "host/passes/passes.h"
#include "host/passes/rewriter.h"

namespace gantry {
namespace {

/// data - zero_point in i32.
struct Bytes {
  Value* data;
  Value* zero_point;  ///< null: 0; else one for all rows, or one a row
};

bool is_one_a_row(const TensorType& type) {
  return type.shape.empty() || type.shape.back() == Dim(1);
}

/// Of i32, or of f32 that were made of it.
std::optional<Bytes> as_bytes(const Value& value) {
  const Node* same = value.type.dtype == DType::kF32 ? producer_of(&value, op::cast) : nullptr;
  if (same != nullptr && same->inputs[0]->type.dtype == DType::kI32) return as_bytes(*same->inputs[0]);
  const Node* less = producer_of(&value, op::subtract);
  const Node* wide = producer_of(less != nullptr ? less->inputs[0] : &value, op::cast);
  if (wide == nullptr || (value.type.dtype != DType::kI32 && same == nullptr)) return std::nullopt;
  Value* data = wide->inputs[0];
  Value* zero_point = less != nullptr ? less->inputs[1] : nullptr;
  const bool bytes = data->type.dtype == DType::kU8 || data->type.dtype == DType::kI8;
  if (!bytes || data->type.shape != value.type.shape || !data->type.shape.back().is_constant())
    return std::nullopt;
  if (zero_point != nullptr && !is_one_a_row(zero_point->type)) return std::nullopt;
  return Bytes{data, zero_point};
}

/// A matrix (K, N) in i8, and the sums of its columns (N).
struct ByteWeight {
  ConstantPtr elements, sums;
};

/// Of a matrix (K, N), or (N, K) if it is to be transposed; nothing where i8 does not hold it.
template <typename Element>
std::optional<ByteWeight> byte_weight(const ConstantData& weight, bool transposed) {
  const Shape shape{weight.type.shape[transposed ? 1 : 0], weight.type.shape[transposed ? 0 : 1]};
  const auto depth = static_cast<size_t>(shape[0].value()), columns = static_cast<size_t>(shape[1].value());
  if (depth * columns == 0) return std::nullopt;
  std::vector<int8_t> elements(depth * columns);
  std::vector<int32_t> sums(columns);
  for (size_t i = 0; i < elements.size(); ++i) {
    const size_t k = i / columns, n = i % columns;
    const Element element = weight.as<Element>()[transposed ? n * depth + k : i];
    const bool fits =
        element >= std::numeric_limits<int8_t>::min() && element <= std::numeric_limits<int8_t>::max();
    if (!fits || static_cast<Element>(static_cast<int8_t>(element)) != element) return std::nullopt;
    elements[i] = static_cast<int8_t>(element);
    sums[n] += elements[i];
  }
  return ByteWeight{make_constant({DType::kI8, shape}, elements.data()),
                    make_constant({DType::kI32, {shape[1]}}, sums.data())};
}

Value* scalar(const Builder& build, DType dtype, int32_t value) {
  const auto byte = static_cast<uint8_t>(value);
  return build.constant(
      "byte", dtype == DType::kU8 ? make_constant({dtype, {}}, &byte) : make_constant({dtype, {}}, &value));
}

/// The same in u8.
Bytes unsigned_bytes(const Builder& build, const Bytes& given) {
  if (given.data->type.dtype == DType::kU8) return given;
  constexpr int32_t kHalf = 128;
  CastAttrs to;
  to.to = DType::kU8;
  Value* bits = build(op::bitcast, {given.data}, to);
  Value* half = scalar(build, DType::kI32, kHalf);
  return {build(op::bitwise_xor, {bits, scalar(build, DType::kU8, kHalf)}),
          given.zero_point == nullptr ? half : build(op::add, {given.zero_point, half})};
}

Value* product_of_bytes(const Builder& build, const Bytes& given, const std::string& name,
                        const ByteWeight& weight) {
  const Bytes bytes = unsigned_bytes(build, given);
  DenseAttrs attrs;
  attrs.units = weight.elements->type.shape[1].value();
  Value* sums = build(nn::dense, {bytes.data, build.constant(name, weight.elements)}, attrs);
  if (bytes.zero_point == nullptr) return sums;
  Value* share = build(op::multiply, {bytes.zero_point, build.constant(name + ".sums", weight.sums)});
  return build(op::subtract, {sums, share});
}

/// A constant matrix of that type.
bool is_matrix(const Value& weight, DType dtype) {
  return weight.is_constant() && weight.type.dtype == dtype && weight.type.rank() == 2;
}

/// In place of a product of i32; null where it is none of bytes.
Value* rewritten_matmul(const Rewriter& rewriter, const Node& node) {
  const MatmulAttrs* attrs = node.match(op::matmul);
  if (attrs == nullptr || attrs->transpose_a || attrs->form.gemm) return nullptr;
  const Value& weight = *node.inputs[1];
  if (!is_matrix(weight, DType::kI32)) return nullptr;
  const std::optional<Bytes> data = as_bytes(*node.inputs[0]);
  const std::optional<ByteWeight> bytes =
      data ? byte_weight<int32_t>(*weight.constant, attrs->transpose_b) : std::nullopt;
  if (!bytes) return nullptr;
  return product_of_bytes(rewriter.before(node), *data, weight.name, *bytes);
}

/// The type of a zero point that was a byte, which its own no longer says once it is i32.
std::optional<DType> byte_type(const Value& zero_point) {
  const Node* wide = producer_of(&zero_point, op::cast);
  if (wide == nullptr) return std::nullopt;
  const DType dtype = wide->inputs[0]->type.dtype;
  return dtype == DType::kU8 || dtype == DType::kI8 ? std::optional(dtype) : std::nullopt;
}

/// Of how many products of data less a zero point and weights i32 holds the sum; 0 where the zero point may
/// be no byte.
int64_t most_products(const Bytes& bytes) {
  constexpr int64_t kLargestWeight = 128, kLargestDifference = 255;
  int64_t difference = kLargestDifference;
  if (bytes.zero_point != nullptr) {
    const std::optional<DType> dtype = byte_type(*bytes.zero_point);
    if (!dtype) return 0;
    if (*dtype != bytes.data->type.dtype) difference += 128;  // 255 less -128, or -128 less 255
  }
  return std::numeric_limits<int32_t>::max() / (difference * kLargestWeight);
}

/// In place of a product of f32; null where it is none of bytes, or i32 might not hold its sums.
Value* rewritten_dense(const Rewriter& rewriter, const Node& node) {
  const DenseAttrs* attrs = node.match(nn::dense);
  if (attrs == nullptr || !attrs->as_in_model()) return nullptr;
  const Value& weight = *node.inputs[1];
  if (!is_matrix(weight, DType::kF32)) return nullptr;
  const std::optional<Bytes> data = as_bytes(*node.inputs[0]);
  if (!data || weight.type.shape[0].value() > most_products(*data)) return nullptr;
  const std::optional<ByteWeight> bytes = byte_weight<float>(*weight.constant, false);
  if (!bytes) return nullptr;
  const Builder build = rewriter.before(node);
  CastAttrs to;
  to.to = DType::kF32;
  return build(op::cast, {product_of_bytes(build, *data, weight.name, *bytes)}, to);
}

/// In place of the product; null where it is none of bytes.
Value* rewritten(const Rewriter& rewriter, const Node& node) {
  return node.is(nn::dense) ? rewritten_dense(rewriter, node) : rewritten_matmul(rewriter, node);
}

void multiply_bytes(Graph& graph, PassContext& context) {
  const Rewriter rewriter(graph.main, context);
  for (const Node* node : rewriter.nodes()) {
    if (!context.may_rewrite()) return;
    if (Value* product = rewritten(rewriter, *node)) rewriter.replace(node->result(), product);
  }
}

}  // namespace

extern const Pass multiply_bytes_pass{
    .name = "multiply_bytes",
    .purpose =
        "products of integers, or of floats, that are bytes become products of bytes, where the target multiplies these",
    .when = [](const PassContext& context) { return context.multiplies_bytes; },
    .run = multiply_bytes,
};

}  // namespace gantry
