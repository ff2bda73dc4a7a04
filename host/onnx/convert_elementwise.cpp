// Arithmetic, comparisons, logic and functions of one element.
#include <cmath>
#include <limits>
#include <optional>

#include "host/onnx/converters.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"

namespace gantry {
namespace {

struct Renamed {
  std::string_view onnx;
  const Op<NoAttrs>* op;
};
constexpr Renamed kUnary[] = {
    {"Exp", &op::exp},         {"Log", &op::log},
    {"Sqrt", &op::sqrt},       {"Tanh", &op::tanh},
    {"Sigmoid", &op::sigmoid},
    {"Floor", &op::floor},     {"Ceil", &op::ceil},
    {"Round", &op::round},     {"Sin", &op::sin},
    {"Cos", &op::cos},         {"Tan", &op::tan},
    {"Asin", &op::asin},       {"Acos", &op::acos},
    {"Atan", &op::atan},       {"Sinh", &op::sinh},
    {"Cosh", &op::cosh},       {"Asinh", &op::asinh},
    {"Acosh", &op::acosh},     {"Atanh", &op::atanh},
    {"Abs", &op::abs},         {"Neg", &op::negative},
    {"Sign", &op::sign},       {"Reciprocal", &op::reciprocal},
    {"Not", &op::logical_not}, {"BitwiseNot", &op::bitwise_not},
    {"IsNaN", &op::isnan},
};
constexpr Renamed kBinary[] = {
    {"Add", &op::add},
    {"Sub", &op::subtract},
    {"Mul", &op::multiply},
    {"Div", &op::divide},
    {"And", &op::logical_and},
    {"Or", &op::logical_or},
    {"Xor", &op::logical_xor},
    {"BitwiseAnd", &op::bitwise_and},
    {"BitwiseOr", &op::bitwise_or},
    {"BitwiseXor", &op::bitwise_xor},
    {"Equal", &op::equal},
    {"Less", &op::less},
    {"LessOrEqual", &op::less_equal},
    {"Greater", &op::greater},
    {"GreaterOrEqual", &op::greater_equal},
    {"PRelu", &nn::prelu},
};
constexpr Renamed kVariadic[] = {{"Max", &op::maximum}, {"Min", &op::minimum}, {"Sum", &op::add}, {"Mean", &op::add}};

template <size_t N>
const Op<NoAttrs>& op_for(const Renamed (&table)[N], const NodeImport& n) {
  for (const Renamed& entry : table) {
    if (entry.onnx == n.op_type()) return *entry.op;
  }
  n.fail("has no entry in its table");
}

/// Of integers too, whose results are rounded to f32, where those of 4 and more are 1, and cut off.
void convert_erf(NodeImport& n) {
  Value* x = n.input(0);
  if (is_float(x->type.dtype)) return n.set(0, n.add(op::erf, {x}));
  n.set(0, n.cast(n.cast(n.add(op::erf, {n.cast(x, DType::kF64)}), DType::kF32), x->type.dtype));
}

void convert_unary(NodeImport& n) {
  n.set(0, n.add(op_for(kUnary, n), {n.input(0)}));
}

void convert_binary(NodeImport& n) {
  n.set(0, n.add(op_for(kBinary, n), {n.input(0), n.input(1)}));
}

/// Before opset 7 the second operand is broadcast only on request, aligned at `axis`.
Value* aligned_operand(NodeImport& n) {
  Value *a = n.input(0), *b = n.input(1);
  if (n.integer("broadcast", 0) == 0 || !n.has_attribute("axis")) return b;
  int rank = a->type.rank();
  int64_t axis = n.axis(n.integer("axis", 0), rank);
  Shape shape = b->type.shape;
  if (axis + static_cast<int64_t>(shape.size()) > rank) n.fail("the operands do not align at axis {}", axis);
  while (axis + static_cast<int64_t>(shape.size()) < rank) shape.push_back(1);
  return n.reshape(b, shape);
}
void convert_binary_1(NodeImport& n) {
  Value* b = aligned_operand(n);
  n.set(0, n.add(op_for(kBinary, n), {n.input(0), b}));
}

/// Before opset 7 a slope of one value a channel is aligned with the channels.
void convert_prelu_1(NodeImport& n) {
  Value *x = n.input(0), *slope = n.input(1);
  if (slope->type.rank() == 1 && x->type.rank() > 2) {
    Shape shape{slope->type.shape[0]};
    for (int i = 2; i < x->type.rank(); ++i) shape.push_back(1);
    slope = n.reshape(slope, shape);
  }
  n.set(0, n.add(nn::prelu, {x, slope}));
}

void convert_variadic(NodeImport& n) {
  if (n.input_count() == 0) n.fail("has no inputs");
  Value* total = n.input(0);
  for (size_t i = 1; i < n.input_count(); ++i) total = n.add(op_for(kVariadic, n), {total, n.input(i)});
  if (n.op_type() == "Mean" && n.input_count() > 1) {
    total = n.add(op::divide, {total, n.scalar(total->type.dtype, static_cast<double>(n.input_count()))});
  }
  // A lone operand still is a value of the node's own.
  n.set(0, n.input_count() == 1 ? n.add(op::identity, {total}) : total);
}

/// A scalar constant exponent; NaN (which equals nothing) for any other.
double known_exponent(NodeImport& n) {
  ConstantPtr c = n.constant(1);
  bool usable = c && c->type.rank() == 0 && (c->type.dtype == DType::kF32 || c->type.dtype == DType::kF64) &&
                is_float(n.type(0).dtype);
  return usable ? n.numbers(1, "exponent").at(0) : std::nan("");
}

void convert_pow_1(NodeImport& n) {
  Value* exponent = aligned_operand(n);
  n.set(0, n.add(op::power, {n.input(0), exponent}));
}

void convert_pow(NodeImport& n) {
  Value* x = n.input(0);
  double exponent = known_exponent(n);
  if (exponent == 1) return n.set(0, n.add(op::identity, {x}));
  if (exponent == 2) return n.set(0, n.add(op::multiply, {x, x}));
  if (exponent == 3) return n.set(0, n.add(op::multiply, {n.add(op::multiply, {x, x}), x}));
  if (exponent == -1) return n.set(0, n.add(op::reciprocal, {x}));
  n.set(0, n.add(op::power, {x, n.input(1)}));
}

void convert_mod(NodeImport& n) {
  auto attrs = std::make_shared<ModAttrs>();
  attrs->fmod = n.integer("fmod", 0) != 0;
  if (!attrs->fmod && is_float(n.type(0).dtype) && n.opset() < 28) n.fail("floating-point data needs fmod=1 before opset 28");
  n.set(0, n.add(op::mod, {n.input(0), n.input(1)}, attrs));
}

void convert_bit_shift(NodeImport& n) {
  std::string direction = n.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    n.fail("its direction is '{}', not LEFT or RIGHT", direction);
  n.set(0, n.add(direction == "LEFT" ? op::shift_left : op::shift_right, {n.input(0), n.input(1)}));
}

void convert_where(NodeImport& n) {
  n.set(0, n.add(op::where, n.inputs()));
}

void convert_is_inf(NodeImport& n) {
  auto attrs = std::make_shared<IsInfAttrs>();
  attrs->detect_negative = n.integer("detect_negative", 1) != 0;
  attrs->detect_positive = n.integer("detect_positive", 1) != 0;
  n.set(0, n.add(op::isinf, {n.input(0)}, attrs));
}

/// Bounds that are left out: none in operator set 1, later f32's largest numbers, which keep infinities out.
void convert_clip_1(NodeImport& n) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  const DType dtype = n.type(0).dtype;
  const bool limited = n.opset() >= 6 && (dtype == DType::kF32 || dtype == DType::kF64);
  auto attrs = std::make_shared<ClipAttrs>();
  attrs->min = n.number("min", limited ? -kLargest : attrs->min);
  attrs->max = n.number("max", limited ? kLargest : attrs->max);
  n.set(0, n.add(op::clip, {n.input(0)}, attrs));
}

/// A bound that the op holds as a number: a constant scalar, which a double has exactly.
std::optional<double> known_bound(NodeImport& n, size_t i) {
  const DType dtype = n.type(0).dtype;
  const ConstantPtr c = n.constant(i);
  if (!c || !c->type.shape.empty() || dtype == DType::kF16 || dtype == DType::kBF16) return std::nullopt;
  const double bound = n.numbers(i, "bound").at(0);
  constexpr double kExact = 0x1p53;
  if (std::isnan(bound) || (!is_float(dtype) && std::abs(bound) > kExact)) return std::nullopt;
  return bound;
}

/// Bounds are inputs; constant ones become attributes where both do: the upper one counts where they cross.
void convert_clip_11(NodeImport& n) {
  Value* x = n.input(0);
  const auto low = n.has(1) ? known_bound(n, 1) : std::nullopt, high = n.has(2) ? known_bound(n, 2) : std::nullopt;
  auto attrs = std::make_shared<ClipAttrs>();
  if (n.has(1) && !low) x = n.add(op::maximum, {x, n.input(1)});
  if (low) attrs->min = *low;
  if (n.has(2) && !high) {
    if (low) x = n.add(op::maximum, {x, n.input(1)});
    return n.set(0, n.add(op::minimum, {x, n.input(2)}));
  }
  if (high) attrs->max = *high;
  n.set(0, n.add(op::clip, {x}, attrs));
}

}  // namespace

void add_elementwise_converters(ConverterTable& table) {
  for (const Renamed& entry : kUnary) table.push_back({entry.onnx, 1, convert_unary});
  for (const Renamed& entry : kBinary) {
    table.push_back({entry.onnx, 1, entry.onnx == "PRelu" ? convert_prelu_1 : convert_binary_1});
    table.push_back({entry.onnx, 7, convert_binary});
  }
  for (const Renamed& entry : kVariadic) table.push_back({entry.onnx, 1, convert_variadic});
  const Converter rest[] = {
      {"Erf", 9, convert_erf},
      {"Pow", 1, convert_pow_1},
      {"Pow", 7, convert_pow},
      {"Mod", 10, convert_mod},
      {"BitShift", 11, convert_bit_shift},
      {"Where", 9, convert_where},
      {"IsInf", 10, convert_is_inf},
      {"Clip", 1, convert_clip_1},
      {"Clip", 11, convert_clip_11},
  };
  table.insert(table.end(), std::begin(rest), std::end(rest));
}

}  // namespace gantry
