#include "host/loops/loop_path.h"

#include <algorithm>
#include <limits>

#include "host/tensor/fold.h"

namespace gantry {
namespace {

using Known = std::optional<int64_t>;

Known sum(Known a, Known b) {
  int64_t total = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &total)) return std::nullopt;
  return total;
}

Known negated(Known a) {
  return a && *a != std::numeric_limits<int64_t>::min() ? Known(-*a) : std::nullopt;
}

Interval scaled(const Interval& x, int64_t factor) {
  const auto times = [&](Known end) -> Known {
    int64_t product = 0;
    if (!end || __builtin_mul_overflow(*end, factor, &product)) return std::nullopt;
    return product;
  };
  return factor >= 0 ? Interval{times(x.low), times(x.high)} : Interval{times(x.high), times(x.low)};
}

Interval range_of_binary(BinaryOp op, const Interval& a, const Interval& b) {
  const bool constant = b.low && b.low == b.high;
  switch (op) {
    case BinaryOp::kAdd:
      return {sum(a.low, b.low), sum(a.high, b.high)};
    case BinaryOp::kSub:
      return {sum(a.low, negated(b.high)), sum(a.high, negated(b.low))};
    case BinaryOp::kMul:
      if (constant) return scaled(a, *b.low);
      return a.low && a.low == a.high ? scaled(b, *a.low) : Interval{};
    case BinaryOp::kFloorDiv:
      if (!constant || *b.low <= 0) return {};
      return {a.low ? Known(floor_divide(*a.low, *b.low)) : std::nullopt,
              a.high ? Known(floor_divide(*a.high, *b.low)) : std::nullopt};
    case BinaryOp::kMod: {
      if (!constant || *b.low <= 0) return {};
      const bool within = a.low && a.high && *a.low >= 0 && *a.high < *b.low;
      return within ? a : Interval{0, *b.low - 1};
    }
    case BinaryOp::kMin:
      return {a.low && b.low ? Known(std::min(*a.low, *b.low)) : std::nullopt,
              a.high && b.high ? std::min(*a.high, *b.high) : (a.high ? a.high : b.high)};
    case BinaryOp::kMax:
      return {a.low && b.low ? std::max(*a.low, *b.low) : (a.low ? a.low : b.low),
              a.high && b.high ? Known(std::max(*a.high, *b.high)) : std::nullopt};
    default:
      return {};
  }
}

}  // namespace

void LoopPath::enter_loop(const VarNode* var, Expr low, Expr extent) {
  const Interval first = range_of(low), count = range_of(extent);
  ranges_[var] = {first.low, sum(first.high, sum(count.high, -1))};
  bindings_.push_back({var, std::move(low), std::move(extent), {}});
}

void LoopPath::enter_let(const VarNode* var, Expr value) {
  if (var->type == ExprType{DType::kI64, 1}) ranges_[var] = range_of(value);
  bindings_.push_back({var, {}, {}, std::move(value)});
}

void LoopPath::leave() {
  ranges_.erase(bindings_.back().var);
  bindings_.pop_back();
}

Interval LoopPath::range_of(const Expr& e) const {
  if (const auto* imm = e.as<IntImmNode>()) return {imm->value, imm->value};
  if (const auto* var = e.as<VarNode>()) {
    const auto range = ranges_.find(var);
    if (range != ranges_.end()) return range->second;
    return var->is_symbol ? Interval{0, std::nullopt} : Interval{};
  }
  if (const auto* node = e.as<BinaryNode>(); node && node->a.type().dtype == DType::kI64)
    return range_of_binary(node->op, range_of(node->a), range_of(node->b));
  if (const auto* ramp = e.as<RampNode>()) {
    const Interval base = range_of(ramp->base), stride = range_of(ramp->stride);
    const Interval last = range_of_binary(BinaryOp::kMul, stride, {e.type().lanes - 1, e.type().lanes - 1});
    if (!last.low || !last.high) return {};
    return {sum(base.low, std::min<int64_t>(0, *last.low)), sum(base.high, std::max<int64_t>(0, *last.high))};
  }
  if (const auto* broadcast = e.as<BroadcastNode>()) return range_of(broadcast->value);
  return {};
}

}  // namespace gantry
