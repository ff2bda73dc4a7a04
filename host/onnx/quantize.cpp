#include "host/onnx/quantize.h"

#include <algorithm>
#include <cmath>

#include "host/graph/small_float.h"
#include "host/ops/elementwise.h"

namespace gantry {
namespace {

/// Each entry along the axis for `block` elements; the last block may be cut short.
Value* spread_blocks(NodeImport& n, Value* p, const Shape& shape, size_t axis, int64_t block) {
  Shape parts = p->type.shape, merged = parts;
  const Dim& extent = shape[axis];
  if (provably_different(parts[axis], ceildiv(extent, block)))
    n.fail("{} has parameters for {} blocks of {} along axis {} of {}", p->type.str(), parts[axis].str(), block,
           axis, to_string(shape));
  if (extent.is_constant() && extent.value() > 0) block = std::min(block, extent.value());
  merged[axis] = merged[axis] * block;
  const auto behind = parts.begin() + static_cast<std::ptrdiff_t>(axis) + 1;
  parts.insert(behind, 1);
  p = n.reshape(p, parts);
  parts[axis + 1] = block;
  p = n.reshape(n.broadcast(p, parts), merged);
  return merged[axis] == shape[axis] ? p : n.slice(p, static_cast<int64_t>(axis), 0, shape[axis]);
}

Value* clip(NodeImport& n, Value* x, double low, double high) {
  auto attrs = std::make_shared<ClipAttrs>();
  attrs->min = low;
  attrs->max = high;
  return n.add(op::clip, {x}, attrs);
}

}  // namespace

Value* along_axis(NodeImport& n, Value* parameter, const Shape& shape, int64_t axis, int64_t block) {
  if (parameter == nullptr) return nullptr;
  const Shape own = parameter->type.shape;
  if (element_count(own) == Dim(1)) return n.reshape(parameter, {});
  const auto rank = static_cast<int>(shape.size());
  if (block > 0) {
    if (own.size() != shape.size())
      n.fail("parameters of blocks, {}, need the rank of the data, {}", parameter->type.str(), rank);
    return spread_blocks(n, parameter, shape, static_cast<size_t>(n.axis(axis, rank)), block);
  }
  if (own.size() != 1) return parameter;
  Shape aligned = own;
  for (int64_t i = n.axis(axis, rank) + 1; i < rank; ++i) aligned.push_back(1);
  return n.reshape(parameter, aligned);
}

Value* saturating_cast(NodeImport& n, Value* x, DType to) {
  const bool has_more = is_small_float(to) && small_float(to).overflow != small_float(to).largest;
  if (!has_more || to == DType::kF8E8M0FNU || x->type.dtype == DType::kBool) return n.cast(x, to);
  if (!is_float(x->type.dtype) || is_small_float(x->type.dtype)) x = n.cast(x, DType::kF32);
  const double largest = small_float_value(to, small_float(to).largest);
  return n.cast(clip(n, x, -largest, largest), to);
}

Value* less_zero_point(NodeImport& n, Value* x, Value* zero_point) {
  const DType wide = is_float(x->type.dtype) ? DType::kF32 : DType::kI32;
  x = n.cast(x, wide);
  return zero_point == nullptr ? x : n.add(op::subtract, {x, n.cast(zero_point, wide)});
}

Value* dequantize(NodeImport& n, Value* x, Value* scale, Value* zero_point) {
  x = n.cast(x, DType::kF32);
  if (zero_point != nullptr) x = n.add(op::subtract, {x, n.cast(zero_point, DType::kF32)});
  return n.add(op::multiply, {x, n.cast(scale, DType::kF32)});
}

Value* quantize_integer(NodeImport& n, Value* x, Value* zero_point, DType to) {
  // In floats: what is beyond the integers in between would wrap before it is limited.
  if (x->type.dtype != DType::kF64) x = n.cast(x, DType::kF32);
  x = n.add(op::round, {x});
  if (zero_point != nullptr) x = n.add(op::add, {x, n.cast(zero_point, x->type.dtype)});
  const int bits = bit_width(to);
  const double low = is_signed_int(to) ? -std::ldexp(1, bits - 1) : 0;
  return n.cast(clip(n, x, low, low + std::ldexp(1, bits) - 1), to);
}

Value* requantize(NodeImport& n, Value* x, Value* scale, Value* zero_point, DType to) {
  return quantize_integer(n, n.add(op::divide, {x, scale}), zero_point, to);
}

DType quantized_dtype(const Value* zero_point, DType otherwise) {
  return zero_point == nullptr ? otherwise : zero_point->type.dtype;
}

}  // namespace gantry
