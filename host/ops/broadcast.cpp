// Functions of two elements (and `where`, of three) with numpy broadcasting.
#include "host/ops/elementwise.h"
#include "host/ops/families.h"
#include "host/ops/support.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

using ops::input_type;
using BinaryFn = std::function<Expr(const Node&, Expr, Expr)>;

struct BinaryRule {
  Takes takes = Takes::kNumber;
  bool bool_result = false;
  bool same_dtype = true;
};

void add_binary(OpSet& set, const OpHandle& handle, BinaryRule rule, BinaryFn f) {
  OpDef op = ops::define(handle, FusionClass::kBroadcast, LayoutBehaviour::kAny, {"a", "b"});
  op.infer = [rule](const Node& node, Function& function) {
    const TensorType &a = input_type(node, 0), &b = input_type(node, 1);
    ops::require_taken(rule.takes, a.dtype);
    ops::require_taken(rule.takes, b.dtype);
    if (rule.same_dtype) ops::require_same_dtype(node, 0, 1);
    Shape shape = broadcast_shapes(a.shape, b.shape, function, ops::origin_of(node));
    return std::vector<TensorType>{{rule.bool_result ? DType::kBool : a.dtype, shape}};
  };
  op.compute = [name = op.name, f](const Node& node, const std::vector<Tensor>& in) {
    const TensorType& type = node.result()->type;
    auto body = [&](const std::vector<Expr>& i) {
      Expr y = f(node, ops::widen(ops::broadcast_read(in[0], i)), ops::widen(ops::broadcast_read(in[1], i)));
      return y.type().dtype == type.dtype ? y : cast(type.dtype, y);
    };
    return std::vector<Tensor>{compute(to_exprs(type.shape), body, name)};
  };
  set.add(std::move(op));
}

/// Integers: divisors 0 and -1 trap on some CPUs (-1 with the smallest dividend), so they never reach the
/// divider.
Expr safe_divisor(const Expr& b) {
  DType dtype = b.type().dtype;
  Expr bad = eq(b, int_imm(dtype, 0));
  if (is_signed_int(dtype)) bad = bad || eq(b, int_imm(dtype, -1));
  return select(bad, int_imm(dtype, 1), b);
}

Expr divide(const Node&, Expr a, Expr b) {
  DType dtype = a.type().dtype;
  if (is_float(dtype)) return a / b;
  Expr quotient = a / safe_divisor(b);
  return is_signed_int(dtype) ? select(eq(b, int_imm(dtype, -1)), -a, quotient) : quotient;
}

/// a - floor(a / b) * b, exact before its one rounding: the remainder with the dividend's sign, and the divisor more
/// where their signs differ. What is 0 has the sign of the divisor.
Expr floor_remainder(const Expr& a, const Expr& b) {
  const DType dtype = a.type().dtype;
  const Expr zero = float_imm(dtype, 0);
  const Expr remainder = binary(BinaryOp::kRem, a, b), negative = lt(b, zero);
  const Expr differs = ne(lt(remainder, zero), negative);
  const Expr other = select(differs, remainder + b, remainder);
  return select(eq(remainder, zero), select(negative, float_imm(dtype, -0.0), zero), other);
}

Expr modulo(const Node& node, Expr a, Expr b) {
  bool fmod = node.attrs_as<ModAttrs>().fmod;
  DType dtype = a.type().dtype;
  if (is_float(dtype)) return fmod ? binary(BinaryOp::kRem, a, b) : floor_remainder(a, b);
  Expr divisor = safe_divisor(b);
  return fmod || is_unsigned_int(dtype) ? binary(BinaryOp::kRem, a, divisor) : mod(a, divisor);
}

/// Integers to the power of integers, exactly but for what wraps: squares of the base are multiplied where the exponent
/// has its bits, of which the last counts beyond 63 too, for the sign of powers of -1.
Expr integer_power(const Expr& a, const Expr& b) {
  const DType base = a.type().dtype, type = b.type().dtype;
  constexpr int kBits = 6;
  const auto imm = [&](int64_t value) { return int_imm(type, value); };
  const Expr odd = binary(BinaryOp::kAnd, b, imm(1));
  const bool may_be_larger = bit_width(type) > kBits + 1;
  const Expr exponent = may_be_larger ? select(gt(b, imm((1 << kBits) - 1)), odd + imm((1 << kBits) - 2), b) : b;
  Expr square = a, result = const_of(base, 1);
  for (int bit = 0; bit < kBits; ++bit) {
    if (bit >= bit_width(type)) break;
    const Expr is_set = ne(binary(BinaryOp::kAnd, exponent, imm(int64_t{1} << bit)), imm(0));
    result = select(is_set, result * square, result);
    square = square * square;
  }
  if (is_unsigned_int(type)) return result;
  // 1 / a: 1 and -1 are their own inverses, what is larger is cut off.
  const Expr one = const_of(base, 1), zero = const_of(base, 0);
  Expr inverse = select(eq(a, one), one, zero);
  if (is_signed_int(base)) {
    const Expr minus = const_of(base, -1);
    inverse = select(eq(a, minus), select(ne(odd, imm(0)), minus, one), inverse);
  }
  return select(lt(b, imm(0)), inverse, result);
}

/// Whether a float type has all values of an exponent's type, or the exponent's value where it is a constant.
bool holds_exponent(DType type, const Expr& exponent) {
  const DType from = exponent.type().dtype;
  if (type == DType::kF64 || type == from) return true;
  const Expr wide = cast(DType::kF64, exponent);
  if (const auto* number = wide.as<FloatImmNode>()) return round_float(type, number->value) == number->value;
  return !is_float(from) && bit_width(from) <= 16;
}

/// The exponent is never rounded to the base's type: one next to 0 would be 0, and a large odd integer would
/// be even.
Expr float_power(const Expr& a, const Expr& b) {
  const DType base = a.type().dtype, type = holds_exponent(base, b) ? base : DType::kF64;
  return cast(base, call(MathFn::kPow, {cast(type, a), cast(type, b)}));
}

/// Of an integer and a float it is cut off; what is an integer but for rounding is one.
Expr power(const Node&, Expr a, Expr b) {
  DType base = a.type().dtype;
  if (is_float(base)) return float_power(a, b);
  if (!is_float(b.type().dtype)) return integer_power(a, b);
  const Expr wide = call(MathFn::kPow, {cast(DType::kF64, a), cast(DType::kF64, b)});
  const Expr near = call(MathFn::kRound, {wide}), off = call(MathFn::kAbs, {wide - near});
  const Expr is_near = le(off, call(MathFn::kAbs, {near}) * float_imm(DType::kF64, 0x1p-45));
  return cast(base, select(is_near, near, wide));
}

/// The extremum, NaN where an operand is, as ONNX and NumPy have it. Minima and maxima of expressions pass a
/// NaN on beside a constant only, and whether an operand is one depends on who computes: kernels have small
/// constants as immediates, an interpreter reads them.
Expr extremum(BinaryOp op, const Expr& a, const Expr& b) {
  if (!is_float(a.type().dtype) || is_number(a) || is_number(b)) return binary(op, a, b);
  // A comparison with NaN is false, which leaves a.
  const Expr chosen = select(op == BinaryOp::kMax ? gt(b, a) : lt(b, a), b, a);
  return select(call(MathFn::kIsNan, {b}), b, chosen);
}

void add_comparisons(OpSet& set) {
  const std::pair<const OpHandle*, Expr (*)(Expr, Expr)> ordered[] = {
      {&op::less, lt}, {&op::less_equal, le}, {&op::greater, gt}, {&op::greater_equal, ge}};
  for (const auto& [handle, fn] : ordered) {
    add_binary(set, *handle, {Takes::kNumber, true},
               [fn = fn](const Node&, Expr a, Expr b) { return fn(a, b); });
  }
  const BinaryRule any{Takes::kAnything, true};
  add_binary(set, op::equal, any, [](const Node&, Expr a, Expr b) { return eq(a, b); });
  add_binary(set, op::not_equal, any, [](const Node&, Expr a, Expr b) { return ne(a, b); });
}

void add_logical(OpSet& set) {
  const BinaryRule logical{Takes::kBool, true}, bits{Takes::kInteger};
  add_binary(set, op::logical_and, logical, [](const Node&, Expr a, Expr b) { return a && b; });
  add_binary(set, op::logical_or, logical, [](const Node&, Expr a, Expr b) { return a || b; });
  add_binary(set, op::logical_xor, logical, [](const Node&, Expr a, Expr b) { return ne(a, b); });
  const std::pair<const OpHandle*, BinaryOp> bitwise[] = {
      {&op::bitwise_and, BinaryOp::kAnd}, {&op::bitwise_or, BinaryOp::kOr},
      {&op::bitwise_xor, BinaryOp::kXor}, {&op::shift_left, BinaryOp::kShl},
      {&op::shift_right, BinaryOp::kShr},
  };
  for (const auto& [handle, code] : bitwise) {
    add_binary(set, *handle, bits, [code = code](const Node&, Expr a, Expr b) { return binary(code, a, b); });
  }
}

void add_where(OpSet& set) {
  OpDef op = ops::define(op::where, FusionClass::kBroadcast, LayoutBehaviour::kAny, {"condition", "a", "b"});
  op.infer = [](const Node& node, Function& function) {
    const TensorType &c = input_type(node, 0), &a = input_type(node, 1), &b = input_type(node, 2);
    ops::require(c.dtype == DType::kBool, "the condition must be bool, not {}", name_of(c.dtype));
    ops::require_same_dtype(node, 1, 2);
    std::string origin = ops::origin_of(node);
    Shape shape =
        broadcast_shapes(broadcast_shapes(a.shape, b.shape, function, origin), c.shape, function, origin);
    return std::vector<TensorType>{{a.dtype, shape}};
  };
  op.compute = [](const Node& node, const std::vector<Tensor>& in) {
    auto body = [&](const std::vector<Expr>& i) {
      return select(ops::broadcast_read(in[0], i), ops::broadcast_read(in[1], i),
                    ops::broadcast_read(in[2], i));
    };
    return std::vector<Tensor>{compute(ops::result_shape(node), body, "where")};
  };
  set.add(std::move(op));
}

void add_prelu(OpSet& set) {
  OpDef op = ops::define(nn::prelu, FusionClass::kBroadcast, LayoutBehaviour::kAny, {"x", "slope"});
  op.infer = [](const Node& node, Function& function) {
    const TensorType &x = input_type(node, 0), &slope = input_type(node, 1);
    ops::require_same_dtype(node, 0, 1);
    Shape shape = broadcast_shapes(x.shape, slope.shape, function, ops::origin_of(node));
    ops::require(shape.size() == x.shape.size(), "the slope {} has a higher rank than the data {}",
                 slope.str(), x.str());
    return std::vector<TensorType>{{x.dtype, shape}};
  };
  op.compute = [](const Node& node, const std::vector<Tensor>& in) {
    auto body = [&](const std::vector<Expr>& i) {
      Expr x = ops::widen(ops::broadcast_read(in[0], i)), slope = ops::widen(ops::broadcast_read(in[1], i));
      Expr y = select(lt(x, const_of(x.type().dtype, 0)), x * slope, x);
      return cast(in[0].dtype(), y);
    };
    return std::vector<Tensor>{compute(ops::result_shape(node), body, "prelu")};
  };
  set.add(std::move(op));
}

}  // namespace

void add_broadcast_ops(OpSet& set) {
  const BinaryRule number{};
  add_binary(set, op::add, number, [](const Node&, Expr a, Expr b) { return a + b; });
  add_binary(set, op::subtract, number, [](const Node&, Expr a, Expr b) { return a - b; });
  add_binary(set, op::multiply, number, [](const Node&, Expr a, Expr b) { return a * b; });
  add_binary(set, op::divide, number, divide);
  add_binary(set, op::maximum, number,
             [](const Node&, Expr a, Expr b) { return extremum(BinaryOp::kMax, a, b); });
  add_binary(set, op::minimum, number,
             [](const Node&, Expr a, Expr b) { return extremum(BinaryOp::kMin, a, b); });
  add_binary(set, op::power, {Takes::kNumber, false, false}, power);
  add_binary(set, op::mod, number, modulo);
  add_comparisons(set);
  add_logical(set);
  add_where(set);
  add_prelu(set);
}

}  // namespace gantry
