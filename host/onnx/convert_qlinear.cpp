// com.microsoft's ops on quantised tensors, as ONNX Runtime's quantiser writes them: operands are read as
// (x - zero_point) * scale, the op is that of f32, and the result is quantised.
#include <limits>
#include <numeric>
#include <set>

#include "host/onnx/converters.h"
#include "host/onnx/quantize.h"
#include "host/onnx/term.h"
#include "host/onnx/window.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"
#include "host/ops/norm.h"
#include "host/ops/reduce.h"

namespace gantry {
namespace {

/// A scale: one value, in f32.
Value* scale_of(NodeImport& n, size_t i) {
  return n.cast(along_axis(n, n.input(i), {}, 0), DType::kF32);
}
Value* zero_point_of(NodeImport& n, size_t i) {
  return along_axis(n, n.optional_input(i), {}, 0);
}

/// The tensor at input i, whose scale and zero point follow it.
Value* operand(NodeImport& n, size_t i) {
  return dequantize(n, n.input(i), scale_of(n, i + 1), zero_point_of(n, i + 2));
}

/// Sets the result, whose scale and zero point are inputs i and i + 1.
void set_result(NodeImport& n, Value* y, size_t i) {
  Value* zero_point = zero_point_of(n, i + 1);
  const DType to = quantized_dtype(zero_point, n.type(0).dtype);
  n.set(0, requantize(n, y, scale_of(n, i), zero_point, to));
}

void convert_qlinear_binary(NodeImport& n) {
  const Op<NoAttrs>& op = n.op_type() == "QLinearAdd" ? op::add : op::multiply;
  set_result(n, n.add(op, {operand(n, 0), operand(n, 3)}), 6);
}

void convert_qlinear_sigmoid(NodeImport& n) {
  set_result(n, n.add(op::sigmoid, {operand(n, 0)}), 3);
}

void convert_qlinear_leaky_relu(NodeImport& n) {
  auto attrs = std::make_shared<ActivationAttrs>();
  attrs->alpha = n.number("alpha", 0.01);
  set_result(n, n.add(nn::leaky_relu, {operand(n, 0)}, attrs), 3);
}

void convert_qlinear_concat(NodeImport& n) {
  const size_t count = n.input_count();
  if (count < 5 || count % 3 != 2) n.fail("needs the result's scale and zero point, and three inputs a part");
  std::vector<Value*> parts;
  for (size_t i = 2; i < count; i += 3) {
    Value* part = operand(n, i);
    Value* zero_point = zero_point_of(n, 1);
    const DType to = quantized_dtype(zero_point, n.type(i).dtype);
    parts.push_back(requantize(n, part, scale_of(n, 0), zero_point, to));
  }
  auto attrs = std::make_shared<AxisAttrs>();
  attrs->axis = n.axis(n.integer("axis", 0), parts[0]->type.rank());
  n.set(0, n.add(op::concatenate, parts, attrs));
}

void convert_qlinear_average_pool(NodeImport& n) {
  const bool last = n.integer("channels_last", 0) != 0;
  Value* data = last ? channels_first(n, n.input(0)) : n.input(0);
  auto attrs = read_pool(n, data->type);
  attrs->count_include_pad = n.integer("count_include_pad", 0) != 0;
  // Means of integers, scaled once: ties are those of the exact result.
  Value* x = n.cast(less_zero_point(n, data, zero_point_of(n, 2)), DType::kF32);
  Value* means = n.add(nn::avg_pool, {x}, attrs);
  set_result(n, n.add(op::multiply, {last ? channels_last(n, means) : means, scale_of(n, 1)}), 3);
}

/// The attribute opset is that of the Softmax it was: before 13 over all axes from `axis` on, flattened.
void convert_qlinear_softmax(NodeImport& n) {
  const Shape shape = n.type(0).shape;
  const auto axis = static_cast<size_t>(n.axis(n.integer("axis", -1), n.rank(0)));
  Shape rows = shape;
  if (n.integer("opset", 1) < 13) {
    rows.resize(axis);
    rows.push_back(element_count({shape.begin() + static_cast<std::ptrdiff_t>(axis), shape.end()}));
  }
  auto attrs = std::make_shared<SoftmaxAttrs>();
  attrs->axis = static_cast<int64_t>(axis);
  Value* y = n.add(nn::softmax, {n.reshape(operand(n, 0), rows)}, attrs);
  set_result(n, n.reshape(y, shape), 3);
}

void convert_qlinear_where(NodeImport& n) {
  Value* chosen = n.add(op::where, {n.input(0), operand(n, 1), operand(n, 4)});
  Value* zero_point = zero_point_of(n, 8);
  n.set(0, requantize(n, chosen, scale_of(n, 7), zero_point, quantized_dtype(zero_point, n.type(1).dtype)));
}

/// Sums of bytes less their zero point (may be null) over `count` elements each, exactly: in i32 where it
/// holds them for certain, else in i64.
Value* sums_of_bytes(NodeImport& n, Value* x, Value* zero_point, const Dim& count,
                     const std::shared_ptr<ReduceAttrs>& attrs) {
  constexpr int64_t kLargestDifference = 255;
  const bool fits =
      count.is_constant() && count.value() <= std::numeric_limits<int32_t>::max() / kLargestDifference;
  Value* differences = less_zero_point(n, x, zero_point);
  return n.add(op::sum, {fits ? differences : n.cast(differences, DType::kI64)}, attrs);
}

/// Sets the mean of input 0, whose scale and zero point follow it, those of the result behind them.
void set_mean(NodeImport& n, const std::shared_ptr<ReduceAttrs>& attrs) {
  Value* x = n.input(0);
  Shape summed;
  for (const int64_t axis : attrs->axes) summed.push_back(x->type.shape[static_cast<size_t>(axis)]);
  const Dim elements = element_count(summed);
  Value* sums = sums_of_bytes(n, x, zero_point_of(n, 2), elements, attrs);
  const Term count = Term::dimensions(n, {elements}).cast(DType::kF32).reshaped({});
  Value* mean = n.add(op::divide, {n.cast(sums, DType::kF32), count});
  set_result(n, n.add(op::multiply, {mean, scale_of(n, 1)}), 3);
}

void convert_qlinear_average(NodeImport& n) {
  const int rank = n.rank(0);
  if (rank < 3) n.fail("its data {} has no spatial axes", n.type(0).str());
  const bool channels_last = n.integer("channels_last", 0) != 0;
  auto attrs = std::make_shared<ReduceAttrs>();
  attrs->axes.resize(static_cast<size_t>(rank) - 2);
  std::iota(attrs->axes.begin(), attrs->axes.end(), channels_last ? 1 : 2);
  set_mean(n, attrs);
}

/// The attributes axes (none: all) and keepdims.
std::shared_ptr<ReduceAttrs> listed_axes(NodeImport& n) {
  auto attrs = std::make_shared<ReduceAttrs>();
  std::set<int64_t> axes;
  for (const int64_t axis : n.integer_list("axes")) axes.insert(n.axis(axis, n.rank(0)));
  for (int64_t axis = 0; axis < n.rank(0); ++axis)
    if (axes.empty() || axes.contains(axis)) attrs->axes.push_back(axis);
  attrs->keepdims = n.integer("keepdims", 1) != 0;
  return attrs;
}

void convert_qlinear_reduce_mean(NodeImport& n) {
  set_mean(n, listed_axes(n));
}

// --- integers without scales

/// The sum in 32 bits, with a sign if the data have one.
void convert_reduce_sum_integer(NodeImport& n) {
  const DType wide = n.type(0).dtype == DType::kU8 ? DType::kU32 : DType::kI32;
  n.set(0, n.add(op::sum, {n.cast(n.input(0), wide)}, listed_axes(n)));
}

/// Operands are each followed by their zero point.
void convert_mul_integer(NodeImport& n) {
  n.set(0, n.add(op::multiply, {less_zero_point(n, n.input(0), zero_point_of(n, 1)),
                                less_zero_point(n, n.input(2), zero_point_of(n, 3))}));
}

}  // namespace

void add_qlinear_converters(ConverterTable& table) {
  table.push_back({"QLinearAdd", 1, convert_qlinear_binary, kMicrosoft});
  table.push_back({"QLinearMul", 1, convert_qlinear_binary, kMicrosoft});
  table.push_back({"QLinearAveragePool", 1, convert_qlinear_average_pool, kMicrosoft});
  table.push_back({"QLinearSoftmax", 1, convert_qlinear_softmax, kMicrosoft});
  table.push_back({"QLinearWhere", 1, convert_qlinear_where, kMicrosoft});
  table.push_back({"QLinearConcat", 1, convert_qlinear_concat, kMicrosoft});
  table.push_back({"QLinearGlobalAveragePool", 1, convert_qlinear_average, kMicrosoft});
  table.push_back({"QLinearReduceMean", 1, convert_qlinear_reduce_mean, kMicrosoft});
  table.push_back({"ReduceSumInteger", 1, convert_reduce_sum_integer, kMicrosoft});
  table.push_back({"MulInteger", 1, convert_mul_integer, kMicrosoft});
  table.push_back({"QLinearLeakyRelu", 1, convert_qlinear_leaky_relu, kMicrosoft});
  table.push_back({"QLinearSigmoid", 1, convert_qlinear_sigmoid, kMicrosoft});
}

}  // namespace gantry
