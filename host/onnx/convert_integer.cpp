// Products of integers: ConvInteger, MatMulInteger, QLinearConv, QLinearMatMul. Sums are exact in i32, as ONNX has
// them; where results are quantised again, they are scaled in f32.
#include "host/onnx/converters.h"
#include "host/onnx/convolution.h"
#include "host/onnx/quantize.h"
#include "host/onnx/quantized_product.h"
#include "host/onnx/window.h"
#include "host/ops/elementwise.h"

namespace gantry {
namespace {

void convert_matmul_integer(NodeImport& n) {
  n.set(0, integer_product(n, {n.input(0), nullptr, n.optional_input(2)}, {n.input(1), nullptr, n.optional_input(3)}));
}

/// com.microsoft's, of 16 bits: without a sign if neither operand has one.
void convert_matmul_integer_16(NodeImport& n) {
  Value *a = n.input(0), *b = n.input(1);
  Value* sums = integer_product(n, {a, nullptr, nullptr}, {b, nullptr, nullptr});
  const bool unsigned_both = a->type.dtype == DType::kU16 && b->type.dtype == DType::kU16;
  n.set(0, unsigned_both ? n.cast(sums, DType::kU32) : sums);
}

void convert_qlinear_matmul(NodeImport& n) {
  Value *a = n.input(0), *b = n.input(3), *zero_point = n.optional_input(7);
  Value* product = n.cast(integer_product(n, {a, nullptr, n.optional_input(2)}, {b, nullptr, n.optional_input(5)}), DType::kF32);
  const Shape shape = product->type.shape;
  Value* a_scale = of_rows(n, n.cast(n.input(1), DType::kF32), shape);
  Value* b_scale = of_columns(n, n.cast(n.input(4), DType::kF32), shape);
  Value* y_scale = of_rows(n, n.cast(n.input(6), DType::kF32), shape);
  Value* factor = n.add(op::divide, {n.add(op::multiply, {a_scale, b_scale}), y_scale});
  Value* y = n.add(op::multiply, {product, factor});
  const DType to = quantized_dtype(zero_point, a->type.dtype);
  if (is_float(to)) return n.set(0, saturating_cast(n, y, to));
  n.set(0, quantize_integer(n, y, of_rows(n, zero_point, shape), to));
}

/// The convolution of data and weight, of whose zero points the latter may be one an output channel.
Value* integer_convolution(NodeImport& n, Value* data, Value* data_zero, Value* weight, Value* weight_zero) {
  const Shape shape = weight->type.shape;
  // Padding is with the data's zero point, which is 0 once it is subtracted.
  return convolve(n, less_zero_point(n, data, along_axis(n, data_zero, data->type.shape, 1)),
                  less_zero_point(n, weight, along_axis(n, weight_zero, shape, 0)));
}

void convert_conv_integer(NodeImport& n) {
  n.set(0, integer_convolution(n, n.input(0), n.optional_input(2), n.input(1), n.optional_input(3)));
}

/// com.microsoft's may have the channels of its data last; its weight is as that of ONNX's.
void convert_qlinear_conv(NodeImport& n) {
  const bool last = n.integer("channels_last", 0) != 0;
  Value* x = last ? channels_first(n, n.input(0)) : n.input(0);
  Value *w = n.input(3), *zero_point = n.optional_input(7);
  Value* sums = integer_convolution(n, x, n.optional_input(2), w, n.optional_input(5));
  const Shape shape = sums->type.shape;
  if (n.has(8)) sums = n.add(op::add, {sums, along_axis(n, n.input(8), shape, 1)});
  Value* scales = n.add(op::multiply, {n.cast(n.input(1), DType::kF32), n.cast(n.input(4), DType::kF32)});
  Value* factor = n.add(op::divide, {scales, n.cast(n.input(6), DType::kF32)});
  Value* y = n.add(op::multiply, {n.cast(sums, DType::kF32), along_axis(n, factor, shape, 1)});
  y = quantize_integer(n, y, along_axis(n, zero_point, shape, 1), quantized_dtype(zero_point, x->type.dtype));
  n.set(0, last ? channels_last(n, y) : y);
}

}  // namespace

void add_integer_converters(ConverterTable& table) {
  table.push_back({"MatMulInteger", 10, convert_matmul_integer});
  table.push_back({"ConvInteger", 10, convert_conv_integer});
  table.push_back({"QLinearMatMul", 10, convert_qlinear_matmul});
  table.push_back({"QLinearConv", 10, convert_qlinear_conv});
  table.push_back({"QLinearConv", 1, convert_qlinear_conv, kMicrosoft});
  table.push_back({"MatMulInteger16", 1, convert_matmul_integer_16, kMicrosoft});
}

}  // namespace gantry
