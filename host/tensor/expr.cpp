// Builders of expressions. They fold constants and drop neutral operands, so that substitution alone (as in
// unrolling) already leaves short index arithmetic behind.
#include "host/tensor/expr.h"

#include <cmath>
#include <limits>
#include <map>
#include <mutex>

#include "host/support/error.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

const double* float_constant(const Expr& e) {
  const auto* imm = e.as<FloatImmNode>();
  return imm ? &imm->value : nullptr;
}

bool is_scalar_immediate(const Expr& e) {
  return e.as<IntImmNode>() || e.as<FloatImmNode>();
}

Expr adapt_immediate(const Expr& e, DType dtype) {
  const auto* imm = e.as<IntImmNode>();
  if (!imm || imm->type.dtype == dtype) return e;
  if (imm->type.dtype != DType::kI64) return e;  // only untyped (default) integers adapt
  return cast(dtype, e);
}

/// Scalars under a broadcast, else null.
Expr broadcast_value(const Expr& e) {
  const auto* b = e.as<BroadcastNode>();
  return b ? b->value : Expr();
}

Expr widen(const Expr& e, int lanes) {
  return e.type().lanes == lanes ? e : Expr(std::make_shared<BroadcastNode>(e, lanes));
}

/// x op c and c op x where the constant is neutral or absorbing. Null: no rule.
Expr fold_neutral(BinaryOp op, const Expr& a, const Expr& b, DType dtype) {
  auto ca = constant_of(a), cb = constant_of(b);
  bool integer = !is_float(dtype) && dtype != DType::kBool;
  if (integer) {
    if (op == BinaryOp::kAdd && ca == 0) return b;
    if ((op == BinaryOp::kAdd || op == BinaryOp::kSub) && cb == 0) return a;
    if (op == BinaryOp::kMul && ca == 1) return b;
    if ((op == BinaryOp::kMul || op == BinaryOp::kDiv || op == BinaryOp::kFloorDiv) && cb == 1) return a;
    if (op == BinaryOp::kMul && (ca == 0 || cb == 0)) return int_imm(dtype, 0);
    if ((op == BinaryOp::kMod || op == BinaryOp::kRem) && cb == 1) return int_imm(dtype, 0);
    return {};
  }
  if (dtype == DType::kBool) {
    if (op == BinaryOp::kAnd) return ca ? (*ca ? b : a) : cb ? (*cb ? a : b) : Expr();
    if (op == BinaryOp::kOr) return ca ? (*ca ? a : b) : cb ? (*cb ? b : a) : Expr();
    return {};
  }
  const double *fa = float_constant(a), *fb = float_constant(b);
  if (op == BinaryOp::kMul && fa && *fa == 1) return b;
  if ((op == BinaryOp::kMul || op == BinaryOp::kDiv) && fb && *fb == 1) return a;
  if (op == BinaryOp::kSub && fb && *fb == 0 && !std::signbit(*fb)) return a;
  return {};
}

Expr fold_constants(BinaryOp op, const Expr& a, const Expr& b, DType dtype) {
  DType result = is_comparison(op) ? DType::kBool : dtype;
  if (const auto* ia = a.as<IntImmNode>(), *ib = b.as<IntImmNode>(); ia && ib) {
    if (auto value = fold_integers(op, dtype, ia->value, ib->value)) return int_imm(result, *value);
  }
  const double *fa = float_constant(a), *fb = float_constant(b);
  if (fa && fb) {
    if (auto truth = compare_floats(op, *fa, *fb)) return int_imm(DType::kBool, *truth);
    if (auto value = fold_floats(op, dtype, *fa, *fb, true)) return float_imm(dtype, *value);
  }
  return {};
}

/// Ramps and broadcasts of index arithmetic stay ramps where they can.
Expr fold_vectors(BinaryOp op, const Expr& a, const Expr& b, int lanes) {
  Expr va = broadcast_value(a), vb = broadcast_value(b);
  if (va.get() && vb.get()) return widen(binary(op, va, vb), lanes);
  const auto *ra = a.as<RampNode>(), *rb = b.as<RampNode>();
  if (a.type().dtype != DType::kI64) return {};
  auto ramp = [&](Expr base, Expr stride) {
    if (constant_of(stride) == 0) return widen(base, lanes);
    return Expr(std::make_shared<RampNode>(std::move(base), std::move(stride), lanes));
  };
  if (op == BinaryOp::kAdd || op == BinaryOp::kSub) {
    if (ra && rb) return ramp(binary(op, ra->base, rb->base), binary(op, ra->stride, rb->stride));
    if (ra && vb.get()) return ramp(binary(op, ra->base, vb), ra->stride);
    if (va.get() && rb)
      return ramp(binary(op, va, rb->base), op == BinaryOp::kAdd ? rb->stride : -rb->stride);
  }
  if (op == BinaryOp::kMul) {
    if (ra && vb.get()) return ramp(ra->base * vb, ra->stride * vb);
    if (va.get() && rb) return ramp(va * rb->base, va * rb->stride);
  }
  return {};
}

}  // namespace

Expr::Expr(int64_t value) : node_(std::make_shared<IntImmNode>(DType::kI64, value)) {}

Expr::Expr(const Dim& dim) {
  std::vector<Expr> stack;
  dim.visit_postfix([&](Dim::Opcode opcode, int64_t constant, const std::string& symbol) {
    if (opcode == Dim::Opcode::kConstant) return stack.emplace_back(constant), void();
    if (opcode == Dim::Opcode::kSymbol) return stack.push_back(symbol_var(symbol)), void();
    Expr b = stack.back();
    stack.pop_back();
    Expr& a = stack.back();
    switch (opcode) {
      case Dim::Opcode::kAdd:
        a = a + b;
        break;
      case Dim::Opcode::kMul:
        a = a * b;
        break;
      case Dim::Opcode::kFloorDiv:
        a = floordiv(a, b);
        break;
      case Dim::Opcode::kMod:
        a = mod(a, b);
        break;
      case Dim::Opcode::kMax:
        a = max(a, b);
        break;
      case Dim::Opcode::kMin:
        a = min(a, b);
        break;
      default:
        internal_error("unknown operator in dimension {}", dim.str());
    }
  });
  internal_check(stack.size() == 1, "malformed dimension {}", dim.str());
  node_ = stack.back().node_;
}

Expr make_var(std::string name, DType dtype) {
  return std::make_shared<VarNode>(std::move(name), ExprType{dtype, 1}, false);
}

Expr symbol_var(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, Expr> symbols;
  std::lock_guard lock(mutex);
  Expr& var = symbols[name];
  if (!var) var = std::make_shared<VarNode>(name, ExprType{DType::kI64, 1}, true);
  return var;
}

Expr int_imm(DType dtype, int64_t value) {
  internal_check(!is_float(dtype), "integer immediate of a float type");
  return std::make_shared<IntImmNode>(dtype, wrap_integer(dtype, value));
}
Expr float_imm(DType dtype, double value) {
  internal_check(is_float(dtype), "float immediate of an integer type");
  return std::make_shared<FloatImmNode>(dtype, round_float(dtype, value));
}
Expr const_of(DType dtype, double value) {
  return is_float(dtype) ? float_imm(dtype, value) : int_imm(dtype, float_to_integer(dtype, value));
}

Expr binary(BinaryOp op, Expr a, Expr b) {
  internal_check(a.get() && b.get(), "binary operator on a null expression");
  if (is_scalar_immediate(a)) a = adapt_immediate(a, b.type().dtype);
  if (is_scalar_immediate(b)) b = adapt_immediate(b, a.type().dtype);
  DType dtype = a.type().dtype;
  if (dtype != b.type().dtype) {
    internal_error("operands of different types: {} ({}) and {} ({})", to_string(a), name_of(dtype),
                   to_string(b), name_of(b.type().dtype));
  }
  int lanes = std::max(a.type().lanes, b.type().lanes);
  if (lanes > 1) {
    a = widen(a, lanes);
    b = widen(b, lanes);
    if (Expr folded = fold_vectors(op, a, b, lanes)) return folded;
    if (Expr va = broadcast_value(a); va.get() && is_scalar_immediate(va)) {
      if (Expr folded = fold_neutral(op, va, b, dtype)) return widen(folded, lanes);
    }
    if (Expr vb = broadcast_value(b); vb.get() && is_scalar_immediate(vb)) {
      if (Expr folded = fold_neutral(op, a, vb, dtype)) return widen(folded, lanes);
    }
  } else {
    if (Expr folded = fold_constants(op, a, b, dtype)) return folded;
    if (Expr folded = fold_neutral(op, a, b, dtype)) return folded;
  }
  ExprType type{is_comparison(op) ? DType::kBool : dtype, lanes};
  return std::make_shared<BinaryNode>(op, type, std::move(a), std::move(b));
}

Expr operator+(Expr a, Expr b) {
  return binary(BinaryOp::kAdd, std::move(a), std::move(b));
}
Expr operator-(Expr a, Expr b) {
  return binary(BinaryOp::kSub, std::move(a), std::move(b));
}
Expr operator*(Expr a, Expr b) {
  return binary(BinaryOp::kMul, std::move(a), std::move(b));
}
Expr operator/(Expr a, Expr b) {
  return binary(BinaryOp::kDiv, std::move(a), std::move(b));
}
Expr floordiv(Expr a, Expr b) {
  return binary(BinaryOp::kFloorDiv, std::move(a), std::move(b));
}
Expr mod(Expr a, Expr b) {
  return binary(BinaryOp::kMod, std::move(a), std::move(b));
}
Expr min(Expr a, Expr b) {
  if (a.same_as(b)) return a;
  return binary(BinaryOp::kMin, std::move(a), std::move(b));
}
Expr max(Expr a, Expr b) {
  if (a.same_as(b)) return a;
  return binary(BinaryOp::kMax, std::move(a), std::move(b));
}
Expr Expr::logical_and(Expr a, Expr b) {
  return binary(BinaryOp::kAnd, std::move(a), std::move(b));
}
Expr Expr::logical_or(Expr a, Expr b) {
  return binary(BinaryOp::kOr, std::move(a), std::move(b));
}
Expr lt(Expr a, Expr b) {
  return binary(BinaryOp::kLt, std::move(a), std::move(b));
}
Expr le(Expr a, Expr b) {
  return binary(BinaryOp::kLe, std::move(a), std::move(b));
}
Expr gt(Expr a, Expr b) {
  return binary(BinaryOp::kGt, std::move(a), std::move(b));
}
Expr ge(Expr a, Expr b) {
  return binary(BinaryOp::kGe, std::move(a), std::move(b));
}
Expr eq(Expr a, Expr b) {
  return binary(BinaryOp::kEq, std::move(a), std::move(b));
}
Expr ne(Expr a, Expr b) {
  return binary(BinaryOp::kNe, std::move(a), std::move(b));
}

Expr operator-(Expr a) {
  if (const auto* imm = a.as<IntImmNode>()) {
    return int_imm(imm->type.dtype, static_cast<int64_t>(-static_cast<uint64_t>(imm->value)));
  }
  if (const double* value = float_constant(a)) return float_imm(a.type().dtype, -*value);
  if (Expr value = broadcast_value(a)) return widen(-value, a.type().lanes);
  return std::make_shared<UnaryNode>(UnaryOp::kNeg, std::move(a));
}

Expr logical_not(Expr a) {
  if (const auto* imm = a.as<IntImmNode>()) {
    return int_imm(imm->type.dtype, imm->type.dtype == DType::kBool ? !imm->value : ~imm->value);
  }
  if (Expr value = broadcast_value(a)) return widen(logical_not(value), a.type().lanes);
  if (const auto* inner = a.as<UnaryNode>(); inner && inner->op == UnaryOp::kNot) return inner->a;
  return std::make_shared<UnaryNode>(UnaryOp::kNot, std::move(a));
}

Expr select(Expr condition, Expr if_true, Expr if_false) {
  internal_check(condition.type().dtype == DType::kBool, "condition of select is not bool");
  if (is_scalar_immediate(if_true)) if_true = adapt_immediate(if_true, if_false.type().dtype);
  if (is_scalar_immediate(if_false)) if_false = adapt_immediate(if_false, if_true.type().dtype);
  internal_check(if_true.type().dtype == if_false.type().dtype, "branches of select have different types");
  int lanes = std::max(if_true.type().lanes, if_false.type().lanes);
  lanes = std::max(lanes, condition.type().lanes);
  if (auto truth = constant_of(condition)) return widen(*truth ? if_true : if_false, lanes);
  if (Expr scalar = broadcast_value(condition)) {
    if (auto truth = constant_of(scalar)) return widen(*truth ? if_true : if_false, lanes);
  }
  if_true = widen(if_true, lanes);
  if_false = widen(if_false, lanes);
  if (if_true.same_as(if_false)) return if_true;
  condition = widen(condition, lanes);
  return std::make_shared<SelectNode>(std::move(condition), std::move(if_true), std::move(if_false));
}

Expr if_then_else(Expr condition, Expr if_true, Expr if_false) {
  return call(MathFn::kIfThenElse, {std::move(condition), std::move(if_true), std::move(if_false)});
}

Expr cast(DType dtype, Expr a) {
  ExprType from = a.type();
  if (from.dtype == dtype) return a;
  if (const auto* imm = a.as<IntImmNode>()) {
    if (is_float(dtype)) return float_imm(dtype, integer_to_float(from.dtype, imm->value, dtype));
    return int_imm(dtype, imm->value);
  }
  if (const double* value = float_constant(a)) {
    return is_float(dtype) ? float_imm(dtype, *value) : int_imm(dtype, float_to_integer(dtype, *value));
  }
  if (Expr value = broadcast_value(a)) return widen(cast(dtype, value), from.lanes);
  return std::make_shared<CastNode>(ExprType{dtype, from.lanes}, std::move(a));
}

namespace {

Expr call_if_then_else(std::vector<Expr> args) {
  internal_check(args.size() == 3, "if_then_else takes three arguments");
  internal_check(args[0].type().dtype == DType::kBool, "condition of if_then_else is not bool");
  if (is_scalar_immediate(args[1])) args[1] = adapt_immediate(args[1], args[2].type().dtype);
  if (is_scalar_immediate(args[2])) args[2] = adapt_immediate(args[2], args[1].type().dtype);
  internal_check(args[1].type().dtype == args[2].type().dtype,
                 "branches of if_then_else have different types");
  int lanes = std::max(args[1].type().lanes, args[2].type().lanes);
  args[1] = widen(args[1], lanes);
  args[2] = widen(args[2], lanes);
  if (auto truth = constant_of(args[0])) return *truth ? args[1] : args[2];
  ExprType type = args[1].type();
  return std::make_shared<CallNode>(MathFn::kIfThenElse, type, std::move(args));
}

/// Null where the function does not fold on these arguments.
Expr fold_call(MathFn fn, const std::vector<Expr>& args, DType dtype) {
  const double* a = float_constant(args[0]);
  const double* b = args.size() > 1 ? float_constant(args[1]) : nullptr;
  const double* c = args.size() > 2 ? float_constant(args[2]) : nullptr;
  if (fn == MathFn::kAbs && args[0].as<IntImmNode>()) {
    int64_t value = args[0].as<IntImmNode>()->value;
    return int_imm(dtype, value < 0 && !is_unsigned_int(dtype)
                              ? static_cast<int64_t>(-static_cast<uint64_t>(value))
                              : value);
  }
  if (!a || (args.size() > 1 && !b) || (args.size() > 2 && !c)) return {};
  if (fn == MathFn::kIsNan) return int_imm(DType::kBool, std::isnan(*a));
  if (fn == MathFn::kIsInf) return int_imm(DType::kBool, std::isinf(*a));
  if (fn == MathFn::kFma) return float_imm(dtype, std::fma(*a, *b, *c));
  if (auto value = fold_math(fn, dtype, *a, b ? *b : 0)) return float_imm(dtype, *value);
  return {};
}

}  // namespace

Expr call(MathFn fn, std::vector<Expr> args) {
  internal_check(!args.empty(), "{} without arguments", name_of(fn));
  if (fn == MathFn::kIfThenElse) return call_if_then_else(std::move(args));
  DType dtype = args[0].type().dtype;
  int lanes = 1;
  for (Expr& arg : args) {
    if (is_scalar_immediate(arg)) arg = adapt_immediate(arg, dtype);
    internal_check(arg.type().dtype == dtype, "arguments of {} have different types", name_of(fn));
    lanes = std::max(lanes, arg.type().lanes);
  }
  if (Expr folded = fold_call(fn, args, dtype)) return folded;
  for (Expr& arg : args) arg = widen(arg, lanes);
  bool predicate = fn == MathFn::kIsNan || fn == MathFn::kIsInf;
  return std::make_shared<CallNode>(fn, ExprType{predicate ? DType::kBool : dtype, lanes}, std::move(args));
}

Expr identity_of(ReduceKind kind, DType dtype) {
  int bits = bit_width(dtype);
  switch (kind) {
    case ReduceKind::kSum:
      return const_of(dtype, 0);
    case ReduceKind::kProd:
      return const_of(dtype, 1);
    case ReduceKind::kAny:
      return const_of(dtype, 0);
    case ReduceKind::kAll:
      return dtype == DType::kBool ? int_imm(dtype, 1) : int_imm(dtype, -1);
    case ReduceKind::kMax:
    case ReduceKind::kMaxOrNan:
      if (is_float(dtype)) return float_imm(dtype, -std::numeric_limits<double>::infinity());
      if (dtype == DType::kBool || is_unsigned_int(dtype)) return int_imm(dtype, 0);
      return int_imm(dtype, static_cast<int64_t>(~uint64_t{0} << (bits - 1)));
    case ReduceKind::kMin:
    case ReduceKind::kMinOrNan:
      if (is_float(dtype)) return float_imm(dtype, std::numeric_limits<double>::infinity());
      if (dtype == DType::kBool) return int_imm(dtype, 1);
      if (is_unsigned_int(dtype)) return int_imm(dtype, -1);
      return int_imm(dtype, static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1));
  }
  internal_error("unknown reduction");
}

namespace {

/// The extremum of floats, NaN where one of them is: comparisons with a NaN in `a` are false, which keeps it.
Expr extremum_or_nan(const Expr& a, const Expr& b, Expr (*precedes)(Expr, Expr)) {
  return select(precedes(b, a) || call(MathFn::kIsNan, {b}), b, a);
}

}  // namespace

Expr combine(ReduceKind kind, Expr a, Expr b) {
  switch (kind) {
    case ReduceKind::kSum:
      return a + b;
    case ReduceKind::kProd:
      return a * b;
    case ReduceKind::kMax:
      return max(a, b);
    case ReduceKind::kMin:
      return min(a, b);
    case ReduceKind::kAny:
      return a || b;
    case ReduceKind::kAll:
      return a && b;
    case ReduceKind::kMaxOrNan:
      return is_float(a.type().dtype) ? extremum_or_nan(a, b, gt) : max(a, b);
    case ReduceKind::kMinOrNan:
      return is_float(a.type().dtype) ? extremum_or_nan(a, b, lt) : min(a, b);
  }
  internal_error("unknown reduction");
}

}  // namespace gantry
