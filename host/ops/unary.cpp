// Functions of one element.
#include <cmath>

#include "host/ops/elementwise.h"
#include "host/ops/families.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

using ops::input_type;
using ElementFn = std::function<Expr(const Node&, Expr)>;

/// Which dtypes an op takes.
enum class Takes : uint8_t { kFloat, kNumber, kInteger, kBool, kAnything };

void check_dtype(Takes takes, DType dtype) {
  bool integer = is_signed_int(dtype) || is_unsigned_int(dtype);
  bool ok = takes == Takes::kAnything || (takes == Takes::kFloat && is_float(dtype)) ||
            (takes == Takes::kNumber && (is_float(dtype) || integer)) ||
            (takes == Takes::kInteger && integer) || (takes == Takes::kBool && dtype == DType::kBool);
  ops::require_dtype(ok, dtype);
}

template <typename AttrsType = NoAttrs>
void add_unary(OpSet& set, const std::string& name, Takes takes, ElementFn f,
               std::function<DType(const Node&)> result_dtype = {}) {
  OpDef op = ops::define<AttrsType>(name, FusionClass::kElementwise, LayoutBehaviour::kAny, {"x"});
  op.infer = [takes, result_dtype](const Node& node, Function&) {
    TensorType type = input_type(node, 0);
    check_dtype(takes, type.dtype);
    if (result_dtype) type.dtype = result_dtype(node);
    return std::vector<TensorType>{type};
  };
  op.compute = [name, f, result_dtype](const Node& node, const std::vector<Tensor>& in) {
    DType dtype = result_dtype ? result_dtype(node) : in[0].dtype();
    return std::vector<Tensor>{ops::map_elements(in[0], dtype, name, [&](Expr x) { return f(node, x); })};
  };
  set.add(std::move(op));
}

void add_math(OpSet& set, const std::string& name, MathFn fn) {
  add_unary(set, name, Takes::kFloat, [fn](const Node&, Expr x) { return call(fn, {x}); });
}

Expr imm(const Expr& like, double value) {
  return const_of(like.type().dtype, value);
}

Expr absolute(const Node&, Expr x) {
  DType dtype = x.type().dtype;
  if (is_float(dtype)) return call(MathFn::kAbs, {x});
  return is_unsigned_int(dtype) ? x : select(lt(x, imm(x, 0)), -x, x);
}

Expr sign(const Node&, Expr x) {
  Expr zero = imm(x, 0), one = imm(x, 1);
  if (is_unsigned_int(x.type().dtype)) return select(gt(x, zero), one, zero);
  // What is neither positive nor negative is 0 or NaN.
  return select(gt(x, zero), one, select(lt(x, zero), imm(x, -1), x));
}

Expr bitwise_not(const Node&, Expr x) {
  DType dtype = x.type().dtype;
  int bits = byte_width(dtype) * 8;
  int64_t ones = is_signed_int(dtype) || bits == 64 ? -1 : (int64_t{1} << bits) - 1;
  return binary(BinaryOp::kXor, x, int_imm(dtype, ones));
}

/// The smallest (largest) value of an integer dtype.
double integer_limit(DType dtype, bool largest) {
  int bits = byte_width(dtype) * 8;
  if (is_unsigned_int(dtype)) return largest ? std::ldexp(1.0, bits) - 1 : 0;
  return largest ? std::ldexp(1.0, bits - 1) - 1 : -std::ldexp(1.0, bits - 1);
}

Expr clip(const Node& node, Expr x) {
  const auto& attrs = node.attrs_as<ClipAttrs>();
  DType dtype = x.type().dtype;
  double low = attrs.min, high = attrs.max;
  bool floating = is_float(dtype);
  auto bound = [&](double value) {
    return floating ? float_imm(dtype, value) : int_imm(dtype, static_cast<int64_t>(value));
  };
  bool has_low = floating ? low != -INFINITY : low > integer_limit(dtype, false);
  bool has_high = floating ? high != INFINITY : high < integer_limit(dtype, true);
  if (has_low) x = max(x, bound(low));
  if (has_high) x = min(x, bound(high));
  return x;
}

Expr is_inf(const Node& node, Expr x) {
  const auto& attrs = node.attrs_as<IsInfAttrs>();
  if (attrs.detect_negative && attrs.detect_positive) return call(MathFn::kIsInf, {x});
  if (!attrs.detect_negative && !attrs.detect_positive) return int_imm(DType::kBool, 0);
  return eq(x, float_imm(x.type().dtype, attrs.detect_positive ? INFINITY : -INFINITY));
}

DType bool_result(const Node&) {
  return DType::kBool;
}

void add_rest(OpSet& set) {
  add_unary(set, "abs", Takes::kNumber, absolute);
  add_unary(set, "negative", Takes::kNumber, [](const Node&, Expr x) { return -x; });
  add_unary(set, "sign", Takes::kNumber, sign);
  add_unary(set, "reciprocal", Takes::kFloat, [](const Node&, Expr x) { return imm(x, 1) / x; });
  add_unary(set, "logical_not", Takes::kBool, [](const Node&, Expr x) { return logical_not(x); });
  add_unary(set, "bitwise_not", Takes::kInteger, bitwise_not);
  add_unary(set, "copy", Takes::kAnything, [](const Node&, Expr x) { return x; });
  add_unary<ClipAttrs>(set, "clip", Takes::kNumber, clip);
  add_unary<CastAttrs>(
      set, "cast", Takes::kAnything,
      [](const Node& node, Expr x) { return cast(node.attrs_as<CastAttrs>().to, x); },
      [](const Node& node) { return node.attrs_as<CastAttrs>().to; });
  add_unary(
      set, "isnan", Takes::kFloat, [](const Node&, Expr x) { return call(MathFn::kIsNan, {x}); },
      bool_result);
  add_unary<IsInfAttrs>(set, "isinf", Takes::kFloat, is_inf, bool_result);
}

}  // namespace

void add_unary_ops(OpSet& set) {
  const std::pair<const char*, MathFn> functions[] = {
      {"exp", MathFn::kExp},         {"log", MathFn::kLog},     {"sqrt", MathFn::kSqrt},
      {"rsqrt", MathFn::kRsqrt},     {"tanh", MathFn::kTanh},   {"erf", MathFn::kErf},
      {"sigmoid", MathFn::kSigmoid}, {"floor", MathFn::kFloor}, {"ceil", MathFn::kCeil},
      {"round", MathFn::kRound},     {"trunc", MathFn::kTrunc}, {"sin", MathFn::kSin},
      {"cos", MathFn::kCos},         {"tan", MathFn::kTan},     {"asin", MathFn::kAsin},
      {"acos", MathFn::kAcos},       {"atan", MathFn::kAtan},   {"sinh", MathFn::kSinh},
      {"cosh", MathFn::kCosh},       {"asinh", MathFn::kAsinh}, {"acosh", MathFn::kAcosh},
      {"atanh", MathFn::kAtanh},
  };
  for (const auto& [name, fn] : functions) add_math(set, name, fn);
  add_rest(set);
}

}  // namespace gantry
