// QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear.
#include <numeric>

#include "host/onnx/converters.h"
#include "host/onnx/quantize.h"
#include "host/ops/elementwise.h"
#include "host/ops/reduce.h"

namespace gantry {
namespace {

/// The element type that an attribute names; nothing where it is absent or 0.
std::optional<DType> optional_type(const NodeImport& n, const char* name) {
  if (n.integer(name, 0) == 0) return std::nullopt;
  return n.element_type(name);
}

/// What x / scale is computed in: `precision`, else the type of the scale where x has it too, else the wider
/// of both and at least f32, which holds more integers than the small floats do. Where both are integers,
/// quotients that are rounded need more digits than those have.
DType division_type(const NodeImport& n, DType x, DType scale) {
  if (const auto precision = optional_type(n, "precision")) return *precision;
  if (!is_float(x) && !is_float(scale)) return DType::kF64;
  if (x == scale) return scale;
  return x == DType::kF64 || scale == DType::kF64 ? DType::kF64 : DType::kF32;
}

void convert_quantize(NodeImport& n) {
  Value *x = n.input(0), *zero_point = n.optional_input(2);
  const std::optional<DType> asked = optional_type(n, "output_dtype");
  if (asked && zero_point != nullptr && *asked != zero_point->type.dtype)
    n.fail("its output_dtype {} contradicts its zero point of {}", name_of(*asked),
           name_of(zero_point->type.dtype));
  const DType to = quantized_dtype(zero_point, asked.value_or(DType::kU8));
  const int64_t axis = n.integer("axis", 1), block = n.integer("block_size", 0);
  const Shape shape = x->type.shape;
  const DType wide = division_type(n, x->type.dtype, n.type(1).dtype);
  Value* scale = along_axis(n, n.cast(n.input(1), wide), shape, axis, block);
  zero_point = along_axis(n, zero_point, shape, axis, block);
  Value* y = n.add(op::divide, {n.cast(x, wide), scale});
  if (!is_float(to)) return n.set(0, quantize_integer(n, y, zero_point, to));
  // Zero points of floats are 0; of those with 8 bits they are not even added.
  if (zero_point != nullptr && bit_width(to) < 8) y = n.add(op::add, {y, n.cast(zero_point, y->type.dtype)});
  n.set(0, n.integer("saturate", 1) != 0 ? saturating_cast(n, y, to) : n.cast(y, to));
}

void convert_dequantize(NodeImport& n) {
  Value *x = n.input(0), *zero_point = n.optional_input(2);
  const DType to = optional_type(n, "output_dtype").value_or(n.type(1).dtype);
  const int64_t axis = n.integer("axis", 1), block = n.integer("block_size", 0);
  const Shape shape = x->type.shape;
  Value* scale = along_axis(n, n.input(1), shape, axis, block);
  if (is_small_float(x->type.dtype)) zero_point = nullptr;  // which is 0
  zero_point = along_axis(n, zero_point, shape, axis, block);
  n.set(0, n.cast(dequantize(n, x, scale, zero_point), to));
}

/// The least or largest element, and 0.
Value* extreme(NodeImport& n, Value* x, const Op<ReduceAttrs>& reduce, const Op<NoAttrs>& pick) {
  auto attrs = std::make_shared<ReduceAttrs>();
  attrs->axes.resize(x->type.shape.size());
  std::iota(attrs->axes.begin(), attrs->axes.end(), 0);
  attrs->keepdims = false;
  return n.add(pick, {n.add(reduce, {x}, attrs), n.scalar(x->type.dtype, 0)});
}

void convert_dynamic_quantize(NodeImport& n) {
  Value* x = n.input(0);
  Value* scale = nullptr;
  Value* zero_point = dynamic_zero_point(n, x, scale);
  n.set(0, requantize(n, x, scale, zero_point, DType::kU8));
  n.set(1, scale);
  n.set(2, zero_point);
}

}  // namespace

Value* dynamic_zero_point(NodeImport& n, Value* x, Value*& scale) {
  const DType dtype = x->type.dtype;
  Value *low = extreme(n, x, op::min, op::minimum), *high = extreme(n, x, op::max, op::maximum);
  // Of zeros alone any scale is right but 0.
  Value* range =
      n.add(op::where, {n.add(op::equal, {low, high}), n.scalar(dtype, 1), n.add(op::subtract, {high, low})});
  scale = n.add(op::divide, {range, n.scalar(dtype, 255)});
  Value* zero = n.add(op::subtract, {n.scalar(dtype, 0), n.add(op::divide, {low, scale})});
  return quantize_integer(n, zero, nullptr, DType::kU8);
}

void add_quantize_converters(ConverterTable& table) {
  table.push_back({"QuantizeLinear", 10, convert_quantize});
  table.push_back({"DequantizeLinear", 10, convert_dequantize});
  table.push_back({"QuantizeLinear", 1, convert_quantize, kMicrosoft});  // of 16 bits before ai.onnx had them
  table.push_back({"DequantizeLinear", 1, convert_dequantize, kMicrosoft});
  table.push_back({"DynamicQuantizeLinear", 11, convert_dynamic_quantize});
}

}  // namespace gantry
