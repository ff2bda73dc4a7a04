// What is known of a dimension's value when every symbol is in its range.
#include <algorithm>
#include <limits>

#include "host/graph/dim_node.h"

namespace gantry {
namespace {

using Bound = std::optional<int64_t>;

// An end that overflows counts as unknown.
Bound add(Bound a, Bound b) {
  int64_t result;
  if (!a || !b || __builtin_add_overflow(*a, *b, &result)) return std::nullopt;
  return result;
}

Bound mul(Bound a, Bound b) {
  int64_t result;
  if (!a || !b || __builtin_mul_overflow(*a, *b, &result)) return std::nullopt;
  return result;
}

bool not_negative(const DimBounds& bounds) {
  return bounds.low && *bounds.low >= 0;
}

DimBounds quotient_bounds(const DimAtom& atom) {
  const DimBounds a = bounds_of(atom.a), b = bounds_of(atom.b);
  if (const auto divisor = atom.b.constant(); divisor && *divisor > 0) {
    DimBounds result;
    if (a.low) result.low = floordiv_int(*a.low, *divisor);
    if (a.high) result.high = floordiv_int(*a.high, *divisor);
    return result;
  }
  // A divisor of zero has no quotient, so the divisor is at least 1 here.
  if (not_negative(a) && not_negative(b)) return {int64_t{0}, a.high};
  return {};
}

DimBounds remainder_bounds(const DimAtom& atom) {
  const DimBounds a = bounds_of(atom.a), b = bounds_of(atom.b);
  if (!not_negative(b)) return {};
  DimBounds result{int64_t{0}, add(b.high, int64_t{-1})};
  if (not_negative(a) && a.high && (!result.high || *a.high < *result.high)) result.high = a.high;
  return result;
}

// The larger end if both are known, or the known one.
Bound tighter(Bound a, Bound b, bool larger) {
  if (!a || !b) return a ? a : b;
  return larger ? std::max(*a, *b) : std::min(*a, *b);
}

// The operands are sizes, and 0 beside 1 is 0.
DimBounds broadcast_bounds(const DimBounds& a, const DimBounds& b) {
  DimBounds result{int64_t{0}, std::nullopt};
  if (a.low && b.low && *a.low >= 1 && *b.low >= 1) result.low = std::max(*a.low, *b.low);
  if (a.high && b.high) result.high = std::max(*a.high, *b.high);
  return result;
}

DimBounds atom_bounds(const DimAtom& atom) {
  switch (atom.kind) {
    case AtomKind::kSymbol:
      return {atom.range.low, atom.range.high == DimRange().high ? Bound() : Bound(atom.range.high)};
    case AtomKind::kFloorDiv:
      return quotient_bounds(atom);
    case AtomKind::kMod:
      return remainder_bounds(atom);
    case AtomKind::kMax:
    case AtomKind::kMin:
    case AtomKind::kBroadcast:
      break;
  }
  const DimBounds a = bounds_of(atom.a), b = bounds_of(atom.b);
  if (atom.kind == AtomKind::kBroadcast) return broadcast_bounds(a, b);
  DimBounds result;
  if (atom.kind == AtomKind::kMax) {
    result.low = tighter(a.low, b.low, true);
    if (a.high && b.high) result.high = std::max(*a.high, *b.high);
  } else {
    result.high = tighter(a.high, b.high, false);
    if (a.low && b.low) result.low = std::min(*a.low, *b.low);
  }
  return result;
}

DimBounds product_bounds(const Factors& factors) {
  if (factors.size() == 1) return factors[0]->bounds();
  DimBounds product{int64_t{1}, int64_t{1}};
  for (const AtomPtr& atom : factors) {
    const DimBounds& bounds = atom->bounds();
    if (!not_negative(bounds)) return {};
    const Bound low = mul(product.low, bounds.low);
    product = {low ? low : Bound(0), mul(product.high, bounds.high)};
  }
  return product;
}

DimBounds bounds_of_terms(const Dim& dim) {
  DimBounds sum{int64_t{0}, int64_t{0}};
  for (const DimTerm& term : DimNode::terms_of(dim)) {
    DimBounds product = product_bounds(term.factors);
    if (term.coefficient < 0) std::swap(product.low, product.high);
    sum.low = add(sum.low, mul(product.low, term.coefficient));
    sum.high = add(sum.high, mul(product.high, term.coefficient));
  }
  return sum;
}

/// A search for what the terms of a dimension have in common.
struct Search {
  int steps = 16;           ///< each replaces a function by its operands, in up to two ways
  bool multiplies = false;  ///< the dimension too, where only that takes a quotient out of it
  bool left_out = false;    ///< whether there was such a quotient, and it was left
};
Bound related_low(const Dim& dim, Search& search);

/// Whether the coefficients are so far from the ends of i64 that a sum of products of two such is, too.
bool is_small(const Dim& dim) {
  constexpr int64_t kSmall = int64_t{1} << 30;
  return std::ranges::all_of(DimNode::terms_of(dim), [](const DimTerm& term) {
    return term.coefficient > -kSmall && term.coefficient < kSmall;
  });
}

/// Of rest + coefficient * floordiv(x, divisor), by x - divisor + 1 <= divisor * floordiv(x, divisor) <= x.
Bound low_without_quotient(const Dim& rest, int64_t coefficient, const Dim& x, int64_t divisor,
                           Search& search) {
  const bool multiplies = coefficient % divisor != 0;
  if (multiplies && !search.multiplies) {
    search.left_out = true;
    return std::nullopt;
  }
  for (const Dim& dim : {rest, x, Dim(coefficient), Dim(divisor)}) {
    if (multiplies && !is_small(dim)) return std::nullopt;
  }
  const Dim least = coefficient > 0 ? x - divisor + 1 : x;
  if (!multiplies) return related_low(rest + least * (coefficient / divisor), search);
  const Bound low = related_low(rest * divisor + least * coefficient, search);
  if (!low) return std::nullopt;
  return floordiv_int(*low, divisor) + (mod_int(*low, divisor) != 0 ? 1 : 0);  // the dimension is an integer
}

// Lower bounds of the dimension with other things, at most as large, in the place of coefficient * replaced;
// the best of them.
Bound low_without(const Dim& dim, int64_t coefficient, const AtomPtr& replaced, Search& search) {
  const DimAtom& atom = *replaced;
  const Dim rest = dim - DimNode::wrap({DimTerm{coefficient, {replaced}}});
  if (atom.kind == AtomKind::kFloorDiv) {
    const auto divisor = atom.b.constant();
    if (!divisor || *divisor <= 0) return std::nullopt;
    return low_without_quotient(rest, coefficient, atom.a, *divisor, search);
  }
  if (atom.kind != AtomKind::kMax && atom.kind != AtomKind::kMin) return std::nullopt;
  const Bound with_a = related_low(rest + atom.a * coefficient, search);
  const Bound with_b = related_low(rest + atom.b * coefficient, search);
  if ((atom.kind == AtomKind::kMax) == (coefficient > 0)) return tighter(with_a, with_b, true);
  if (!with_a || !with_b) return std::nullopt;
  return std::min(*with_a, *with_b);
}

// Terms that depend on each other may sum to more than the sum of their bounds: 4 * floordiv(N + 3, 4) - N >=
// 0. Only looked for where the bounds themselves do not show that the dimension is not negative, and in so
// many steps.
Bound related_low(const Dim& dim, Search& search) {
  Bound low = bounds_of_terms(dim).low;
  for (const DimTerm& term : DimNode::terms_of(dim)) {
    if ((low && *low >= 0) || --search.steps < 0) break;
    if (term.factors.size() == 1)
      low = tighter(low, low_without(dim, term.coefficient, term.factors[0], search), true);
  }
  return low;
}

/// The same; N - floordiv(N, 2) >= 0 is only looked for where nothing else shows that.
Bound best_related_low(const Dim& dim) {
  Search plain, thorough;
  thorough.multiplies = true;
  const Bound low = related_low(dim, plain);
  if ((low && *low >= 0) || !plain.left_out) return low;
  return tighter(low, related_low(dim, thorough), true);
}

}  // namespace

const DimBounds& DimAtom::bounds() const {
  std::call_once(bounds_are_known_, [this] { bounds_ = atom_bounds(*this); });
  return bounds_;
}

DimBounds bounds_of(const Dim& dim) {
  DimBounds bounds = bounds_of_terms(dim);
  if (DimNode::terms_of(dim).size() > 1) bounds.low = best_related_low(dim);
  return bounds;
}

int64_t constant_term(const Dim& dim) {
  const Terms& terms = DimNode::terms_of(dim);
  return !terms.empty() && terms.back().factors.empty() ? terms.back().coefficient : 0;
}

bool are_far_apart(const Dim& a, const Dim& b) {
  constexpr int64_t kFar = int64_t{1} << 62;
  const int64_t x = constant_term(a), y = constant_term(b);
  int64_t difference;
  return __builtin_sub_overflow(x, y, &difference) || difference > kFar || difference < -kFar ||
         y == std::numeric_limits<int64_t>::min();
}

}  // namespace gantry
