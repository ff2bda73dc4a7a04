#include "host/codegen/index_range.h"

#include <algorithm>
#include <numeric>

namespace gantry {
namespace {

using Range = IndexRanges::Range;
constexpr int64_t kUnbounded = IndexRanges::kUnbounded;

int64_t clamped(__int128 v) {
  return static_cast<int64_t>(std::clamp<__int128>(v, -kUnbounded, kUnbounded));
}
bool is_unbounded(const Range& r) {
  return r.low == -kUnbounded || r.high == kUnbounded;
}

Range product(const Range& a, const Range& b) {
  if (a.low >= 0 && b.low >= 0) {  // one unknown end must not lose the sign
    const bool unknown = a.high == kUnbounded || b.high == kUnbounded;
    return {clamped(static_cast<__int128>(a.low) * b.low),
            unknown ? kUnbounded : clamped(static_cast<__int128>(a.high) * b.high)};
  }
  if (is_unbounded(a) || is_unbounded(b)) return {};
  const auto corners = {static_cast<__int128>(a.low) * b.low, static_cast<__int128>(a.low) * b.high,
                        static_cast<__int128>(a.high) * b.low, static_cast<__int128>(a.high) * b.high};
  return {clamped(std::min(corners)), clamped(std::max(corners))};
}

int64_t floor_divide(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

/// Divisors are positive wherever they are known to be at least 1.
Range quotient(const Range& a, const Range& b) {
  if (b.low < 1) return a.low >= 0 && b.low >= 0 ? Range{0, a.high} : Range{};
  const int64_t low =
      a.low == -kUnbounded ? a.low : std::min(floor_divide(a.low, b.low), floor_divide(a.low, b.high));
  const int64_t high =
      a.high == kUnbounded ? a.high : std::max(floor_divide(a.high, b.low), floor_divide(a.high, b.high));
  return {low, high};
}

Range remainder(const Range& a, const Range& b) {
  if (b.low < 1) return {};
  if (a.low >= 0 && a.high < b.low) return a;
  const int64_t high = b.high == kUnbounded ? kUnbounded : b.high - 1;
  return {0, a.low >= 0 ? std::min(high, a.high) : high};
}

Range of_integers(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return {0, 1};
    case DType::kI8:
      return {INT8_MIN, INT8_MAX};
    case DType::kU8:
      return {0, UINT8_MAX};
    case DType::kI16:
      return {INT16_MIN, INT16_MAX};
    case DType::kU16:
      return {0, UINT16_MAX};
    case DType::kI32:
      return {INT32_MIN, INT32_MAX};
    case DType::kU32:
      return {0, UINT32_MAX};
    default:
      return {};
  }
}

}  // namespace

void IndexRanges::bind(const VarNode* var, Range range) {
  vars_[var] = {clamped(range.low), clamped(range.high)};
  memo_.clear();
}

Range IndexRanges::range(const Expr& e) {
  if (auto* imm = e.as<IntImmNode>()) return {clamped(imm->value), clamped(imm->value)};
  auto known = memo_.find(e.get());
  if (known != memo_.end()) return known->second.second;
  const Range result = compute(e);
  memo_.emplace(e.get(), std::pair(e, result));
  return result;
}

Range IndexRanges::compute(const Expr& e) {
  if (auto* var = e.as<VarNode>()) {
    if (auto it = vars_.find(var); it != vars_.end()) return it->second;
    return var->is_symbol ? Range{0, kUnbounded} : of_integers(var->type.dtype);
  }
  if (e.type().lanes != 1) return {};
  if (auto* node = e.as<SelectNode>()) {
    const Range a = range(node->if_true), b = range(node->if_false);
    return {std::min(a.low, b.low), std::max(a.high, b.high)};
  }
  if (auto* node = e.as<CallNode>(); node && node->fn == MathFn::kIfThenElse) {
    const Range a = range(node->args[1]), b = range(node->args[2]);
    return {std::min(a.low, b.low), std::max(a.high, b.high)};
  }
  // Other integers than indices wrap: only what their type says is known of them.
  if (e.type().dtype != DType::kI64) return of_integers(e.type().dtype);
  if (auto* node = e.as<CastNode>()) return of_integers(node->a.type().dtype);
  if (auto* node = e.as<BinaryNode>()) return compute_binary(*node);
  return {};
}

Range IndexRanges::compute_binary(const BinaryNode& node) {
  const Range a = range(node.a), b = range(node.b);
  switch (node.op) {
    case BinaryOp::kAdd:
      return {a.low == -kUnbounded || b.low == -kUnbounded ? -kUnbounded : clamped(__int128{a.low} + b.low),
              a.high == kUnbounded || b.high == kUnbounded ? kUnbounded : clamped(__int128{a.high} + b.high)};
    case BinaryOp::kSub:
      return {a.low == -kUnbounded || b.high == kUnbounded ? -kUnbounded : clamped(__int128{a.low} - b.high),
              a.high == kUnbounded || b.low == -kUnbounded ? kUnbounded : clamped(__int128{a.high} - b.low)};
    case BinaryOp::kMul:
      return product(a, b);
    case BinaryOp::kFloorDiv:
      return quotient(a, b);
    case BinaryOp::kDiv:
      return a.low >= 0 ? quotient(a, b) : Range{};
    case BinaryOp::kMod:
      return remainder(a, b);
    case BinaryOp::kRem:
      return a.low >= 0 ? remainder(a, b) : Range{};
    case BinaryOp::kMin:
      return {std::min(a.low, b.low), std::min(a.high, b.high)};
    case BinaryOp::kMax:
      return {std::max(a.low, b.low), std::max(a.high, b.high)};
    default:
      return {};
  }
}

IndexRanges::Saved IndexRanges::assume(const Expr& condition) {
  Saved saved;
  assume_parts(condition, saved);
  return saved;
}

void IndexRanges::restore(const Saved& saved) {
  for (auto it = saved.rbegin(); it != saved.rend(); ++it) bind(it->first, it->second);
}

void IndexRanges::assume_parts(const Expr& condition, Saved& saved) {
  auto* node = condition.as<BinaryNode>();
  if (!node || condition.type().lanes != 1) return;
  if (node->op == BinaryOp::kAnd) {
    assume_parts(node->a, saved);
    assume_parts(node->b, saved);
    return;
  }
  if (node->a.type() != ExprType{DType::kI64, 1}) return;
  const Range a = range(node->a), b = range(node->b);
  const bool strict = node->op == BinaryOp::kLt || node->op == BinaryOp::kGt;
  if (node->op == BinaryOp::kLt || node->op == BinaryOp::kLe) {
    assume_at_most(node->a, b.high - strict, saved);
    assume_at_least(node->b, a.low + strict, saved);
  } else if (node->op == BinaryOp::kGt || node->op == BinaryOp::kGe) {
    assume_at_least(node->a, b.low + strict, saved);
    assume_at_most(node->b, a.high - strict, saved);
  } else if (node->op == BinaryOp::kEq) {
    assume_at_most(node->a, b.high, saved);
    assume_at_least(node->a, b.low, saved);
  }
}

void IndexRanges::assume_at_most(const Expr& e, int64_t limit, Saved& saved) {
  auto* var = e.as<VarNode>();
  const auto known = var ? vars_.find(var) : vars_.end();
  if (known == vars_.end() || limit >= known->second.high || limit < known->second.low) return;
  saved.emplace_back(var, known->second);
  bind(var, {known->second.low, limit});
}

void IndexRanges::assume_at_least(const Expr& e, int64_t limit, Saved& saved) {
  auto* var = e.as<VarNode>();
  const auto known = var ? vars_.find(var) : vars_.end();
  if (known == vars_.end() || limit <= known->second.low || limit > known->second.high) return;
  saved.emplace_back(var, known->second);
  bind(var, {limit, known->second.high});
}

std::optional<bool> IndexRanges::decide(const BinaryNode& node) {
  const Range a = range(node.a), b = range(node.b);
  if (is_unbounded(a) || is_unbounded(b)) return std::nullopt;
  auto less = [](const Range& x, const Range& y, bool or_equal) -> std::optional<bool> {
    if (or_equal ? x.high <= y.low : x.high < y.low) return true;
    if (or_equal ? x.low > y.high : x.low >= y.high) return false;
    return std::nullopt;
  };
  switch (node.op) {
    case BinaryOp::kLt:
      return less(a, b, false);
    case BinaryOp::kLe:
      return less(a, b, true);
    case BinaryOp::kGt:
      return less(b, a, false);
    case BinaryOp::kGe:
      return less(b, a, true);
    default:
      return std::nullopt;
  }
}

int64_t IndexRanges::divisor(const Expr& e) {
  if (auto* imm = e.as<IntImmNode>()) return imm->value < 0 ? -imm->value : imm->value;
  if (auto* ramp = e.as<RampNode>()) return divisor(ramp->base);
  if (auto* broadcast = e.as<BroadcastNode>()) return divisor(broadcast->value);
  if (auto* node = e.as<SelectNode>()) return std::gcd(divisor(node->if_true), divisor(node->if_false));
  auto* node = e.as<BinaryNode>();
  if (!node) return 1;
  const int64_t a = divisor(node->a), b = divisor(node->b);
  switch (node->op) {
    case BinaryOp::kAdd:
    case BinaryOp::kSub:
    case BinaryOp::kMin:
    case BinaryOp::kMax:
    case BinaryOp::kMod:
      return std::gcd(a, b);
    case BinaryOp::kMul: {
      constexpr int64_t kEnough = 1 << 20;  // no alignment asked for is larger; keeps products small
      return a <= kEnough && b <= kEnough ? a * b : std::gcd(a, kEnough) * std::gcd(b, kEnough);
    }
    case BinaryOp::kFloorDiv: {
      auto* by = node->b.as<IntImmNode>();
      return by && by->value > 0 && a % by->value == 0 ? a / by->value : 1;
    }
    default:
      return 1;
  }
}

}  // namespace gantry
