// com.microsoft's matrix products of quantised operands: QGemm, MatMulIntegerToFloat, DynamicQuantizeMatMul and
// MatMulNBits, as ONNX Runtime's quantisers write them.
#include "host/onnx/converters.h"
#include "host/onnx/matrix_product.h"
#include "host/onnx/quantize.h"
#include "host/onnx/quantized_product.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"

namespace gantry {

Value* of_rows(NodeImport& n, Value* parameter, const Shape& matrix) {
  return along_axis(n, parameter, matrix, matrix.size() > 1 ? -2 : -1);
}
Value* of_columns(NodeImport& n, Value* parameter, const Shape& matrix) {
  return along_axis(n, parameter, matrix, -1);
}

Value* integer_product(NodeImport& n, const Quantized& a, const Quantized& b) {
  const Shape left = a.data->type.shape, right = b.data->type.shape;
  return matrix_product(n, less_zero_point(n, a.data, of_rows(n, a.zero_point, left)),
                        less_zero_point(n, b.data, of_columns(n, b.zero_point, right)));
}

Value* scaled_product(NodeImport& n, const Quantized& a, const Quantized& b) {
  Value* sums = integer_product(n, a, b);
  const Shape shape = sums->type.shape;
  Value* scales = n.add(op::multiply, {of_rows(n, n.cast(a.scale, DType::kF32), shape),
                                       of_columns(n, n.cast(b.scale, DType::kF32), shape)});
  return n.add(op::multiply, {n.cast(sums, DType::kF32), scales});
}

Quantized dynamically_quantized(NodeImport& n, Value* x) {
  Value* scale = nullptr;
  Value* zero_point = dynamic_zero_point(n, x, scale);
  return {requantize(n, x, scale, zero_point, DType::kU8), scale, zero_point};
}

namespace {

Value* with_bias(NodeImport& n, Value* y, size_t i) {
  return n.has(i) ? n.add(op::add, {y, n.cast(n.input(i), DType::kF32)}) : y;
}

void convert_matmul_integer_to_float(NodeImport& n) {
  const Quantized a{n.input(0), n.input(2), n.optional_input(4)}, b{n.input(1), n.input(3), n.optional_input(5)};
  n.set(0, n.cast(with_bias(n, scaled_product(n, a, b), 6), n.type(2).dtype));
}

void convert_dynamic_quantize_matmul(NodeImport& n) {
  const Quantized a = dynamically_quantized(n, n.input(0));
  const Quantized b{n.input(1), n.input(2), n.optional_input(3)};
  n.set(0, with_bias(n, scaled_product(n, a, b), 4));
}

/// C is of i32, in units of both scales' product.
void convert_qgemm(NodeImport& n) {
  Value *a = n.input(0), *b = n.input(3), *a_scale = n.input(1), *b_scale = n.input(4);
  for (const Value* x : {a, b}) {
    if (x->type.rank() != 2) n.fail("needs matrices, not {}", x->type.str());
  }
  const bool transpose_a = n.integer("transA", 0) != 0, transpose_b = n.integer("transB", 0) != 0;
  Value* left = less_zero_point(n, a, along_axis(n, n.optional_input(2), {}, 0));
  // A zero point and a scale a column of B, which transB has as its rows.
  Value* right = less_zero_point(n, b, along_axis(n, n.optional_input(5), b->type.shape, transpose_b ? 0 : 1));
  Value* sums = matrix_product(n, left, right, transpose_a, transpose_b);
  if (n.has(6)) sums = n.add(op::add, {sums, n.input(6)});
  const Shape shape = sums->type.shape;
  Value* scale = n.add(op::multiply, {along_axis(n, a_scale, {}, 0), along_axis(n, b_scale, shape, 1)});
  if (const double alpha = n.number("alpha", 1); alpha != 1)
    scale = n.add(op::multiply, {scale, n.scalar(DType::kF32, alpha)});
  Value* y = n.add(op::multiply, {n.cast(sums, DType::kF32), scale});
  if (!n.has(7)) return n.set(0, y);
  Value* zero_point = along_axis(n, n.optional_input(8), {}, 0);
  const DType to = quantized_dtype(zero_point, a->type.dtype);
  n.set(0, requantize(n, y, along_axis(n, n.input(7), {}, 0), zero_point, to));
}

}  // namespace

void add_quantized_product_converters(ConverterTable& table) {
  table.push_back({"MatMulIntegerToFloat", 1, convert_matmul_integer_to_float, kMicrosoft});
  table.push_back({"DynamicQuantizeMatMul", 1, convert_dynamic_quantize_matmul, kMicrosoft});
  table.push_back({"QGemm", 1, convert_qgemm, kMicrosoft});
}

}  // namespace gantry
