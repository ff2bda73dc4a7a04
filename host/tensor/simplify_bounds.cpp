// Proofs: is a polynomial never negative, between which constants does it lie.
#include <algorithm>

#include "host/tensor/fold.h"
#include "host/tensor/simplifier.h"

namespace gantry {
namespace {

/// p = q x + r, linear in x; false if x occurs in a higher power.
bool split_linear(const Poly& p, int32_t x, Poly& q, Poly& r) {
  Monomial mx = Poly::atom(x).terms[0].monomial;
  for (const Poly::Term& t : p.terms) {
    auto rest = divide(t.monomial, mx);
    if (!rest) {
      r.add_term(t.monomial, t.coefficient);
    } else if (rest->contains(x)) {
      return false;
    } else {
      q.add_term(*rest, t.coefficient);
    }
  }
  return true;
}

std::optional<int64_t> add_ends(std::optional<int64_t> a, std::optional<int64_t> b) {
  int64_t sum = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &sum)) return std::nullopt;
  return sum;
}

Interval scale_interval(const Interval& x, int64_t k) {
  auto times = [&](std::optional<int64_t> end) -> std::optional<int64_t> {
    int64_t product = 0;
    if (!end || __builtin_mul_overflow(*end, k, &product)) return std::nullopt;
    return product;
  };
  return k >= 0 ? Interval{times(x.low), times(x.high)} : Interval{times(x.high), times(x.low)};
}

Interval product(const Interval& x, const Interval& y) {
  bool nonnegative = x.low && y.low && *x.low >= 0 && *y.low >= 0;
  auto times = [](int64_t a, int64_t b) -> std::optional<int64_t> {
    int64_t value = 0;
    if (__builtin_mul_overflow(a, b, &value)) return std::nullopt;
    return value;
  };
  if (nonnegative) {
    Interval result{times(*x.low, *y.low), std::nullopt};
    if (x.high && y.high) result.high = times(*x.high, *y.high);
    return result;
  }
  if (!x.low || !x.high || !y.low || !y.high) return {};
  std::optional<int64_t> corners[] = {times(*x.low, *y.low), times(*x.low, *y.high), times(*x.high, *y.low),
                                      times(*x.high, *y.high)};
  if (!std::all_of(std::begin(corners), std::end(corners), [](const auto& c) { return c.has_value(); }))
    return {};
  return {*std::min_element(std::begin(corners), std::end(corners)),
          *std::max_element(std::begin(corners), std::end(corners))};
}

}  // namespace

/// The atom to eliminate next: the innermost variable, what is built from it before it. -1: only symbols are
/// left.
int32_t Simplifier::outermost_choice(const Poly& p) const {
  int32_t best = -1;
  for (const Poly::Term& t : p.terms) {
    for (int i = 0; i < t.monomial.degree; ++i) {
      int32_t id = t.monomial.atoms[static_cast<size_t>(i)];
      const Atom& a = atom(id);
      if (best < 0 || std::pair(a.order, a.height) > std::pair(atom(best).order, atom(best).height))
        best = id;
    }
  }
  return best;
}

bool Simplifier::nonnegative(const Poly& p) {
  // A proof may ask for simpler quotients, which ask for proofs: nests of divisions would go on for ever.
  constexpr int kMaxNesting = 3;
  if (proof_nesting_ >= kMaxNesting) return false;
  ++proof_nesting_;
  int budget = 150;
  bool proven = false;
  try {
    proven = nonnegative(p, budget, true);
  } catch (const PolyOverflow&) {
  }
  --proof_nesting_;
  return proven;
}

bool Simplifier::nonnegative(const Poly& p, int& budget, bool use_facts) {
  if (p.is_constant()) return p.constant_term() >= 0;
  if (--budget <= 0) return false;
  int32_t x = outermost_choice(p);
  Poly q, r;
  if (split_linear(p, x, q, r) && nonnegative_with(q, r, x, budget)) return true;
  if (!use_facts) return false;
  for (const Poly& fact : facts_) {
    if (nonnegative(add(p, fact, -1), budget, false)) return true;
  }
  return false;
}

/// q x + r >= 0 by a bound of x on the side that the sign of q asks for.
bool Simplifier::nonnegative_with(const Poly& q, const Poly& r, int32_t id, int& budget) {
  bool positive = true;
  if (q.is_constant()) {
    positive = q.constant_term() > 0;
  } else if (!nonnegative(q, budget, false)) {
    if (!nonnegative(scale(q, -1), budget, false)) return false;
    positive = false;
  }
  const Atom x = atom(id);  // a copy: proving may intern new atoms
  auto holds = [&](const Poly& value) { return nonnegative(add(r, multiply(q, value)), budget, false); };
  switch (x.kind) {
    case AtomKind::kVar:
      if (x.bounded) return holds(positive ? x.low : x.high);
      return positive && x.order < 0 && holds(Poly(0));  // symbols are >= 0
    case AtomKind::kFloorDiv:
      return nonnegative_floordiv(q, r, x, positive, budget);
    case AtomKind::kMod:
      if (positive) return holds(Poly(0));
      return holds(add(x.b, Poly(-1))) || (nonnegative(x.a, budget, false) && holds(x.a));
    case AtomKind::kMin:
      return positive ? holds(x.a) && holds(x.b) : holds(x.a) || holds(x.b);
    case AtomKind::kMax:
      return positive ? holds(x.a) || holds(x.b) : holds(x.a) && holds(x.b);
    case AtomKind::kOpaque:
      return false;
  }
  return false;
}

bool Simplifier::nonnegative_floordiv(const Poly& q, const Poly& r, const Atom& x, bool positive,
                                      int& budget) {
  if (x.b.is_constant() && x.b.constant_term() > 0) {
    // (a - c + 1) / c <= floordiv(a, c) <= a / c; both sides of the claim times c.
    int64_t c = x.b.constant_term();
    Poly end = positive ? add(x.a, Poly(1 - c)) : x.a;
    if (nonnegative(add(scale(r, c), multiply(q, end)), budget, false)) return true;
  } else if (positive && nonnegative(x.a, budget, false) && nonnegative(r, budget, false)) {
    return true;
  }
  if (x.order < 0) return false;
  auto end = bound(x.a, !positive);
  if (!end || *end == x.a) return false;
  return nonnegative(add(r, multiply(q, floordiv_poly(*end, x.b))), budget, false);
}

bool Simplifier::in_range(const Poly& p, const Poly& size) {
  return nonnegative(p) && nonnegative(add(add(size, Poly(-1)), p, -1));
}

std::optional<Poly> Simplifier::bound(const Poly& p, bool upper, int depth) {
  if (depth > 24) return std::nullopt;
  int32_t id = outermost_choice(p);
  if (id < 0 || atom(id).order < 0) return p;
  Poly q, r;
  if (!split_linear(p, id, q, r)) return std::nullopt;
  bool positive = nonnegative(q);
  if (!positive && !nonnegative(scale(q, -1))) return std::nullopt;
  bool high = positive == upper;
  const Atom x = atom(id);
  std::optional<Poly> end;
  if (x.kind == AtomKind::kVar && x.bounded) end = high ? x.high : x.low;
  if (x.kind == AtomKind::kFloorDiv) {
    if (auto inner = bound(x.a, high, depth + 1)) end = floordiv_poly(*inner, x.b);
  }
  if (x.kind == AtomKind::kMod) end = high ? add(x.b, Poly(-1)) : Poly(0);
  if (x.kind == AtomKind::kMin && high) end = x.a;
  if (x.kind == AtomKind::kMax && !high) end = x.a;
  if (!end) {
    Interval known = interval_of_atom(x);
    if (high ? known.high : known.low) end = Poly(high ? *known.high : *known.low);
  }
  if (!end) return std::nullopt;
  return bound(add(r, multiply(q, *end)), upper, depth + 1);
}

Interval Simplifier::interval_of_atom(const Atom& x) {
  switch (x.kind) {
    case AtomKind::kVar:
      if (x.bounded) return {interval(x.low).low, interval(x.high).high};
      return x.order < 0 ? Interval{0, std::nullopt} : Interval{};
    case AtomKind::kFloorDiv: {
      Interval a = interval(x.a);
      if (x.b.is_constant() && x.b.constant_term() > 0) {
        int64_t c = x.b.constant_term();
        if (a.low) a.low = floor_divide(*a.low, c);
        if (a.high) a.high = floor_divide(*a.high, c);
        return a;
      }
      return a.low && *a.low >= 0 ? Interval{0, a.high} : Interval{};
    }
    case AtomKind::kMod: {
      Interval b = interval(x.b);
      Interval result{0, std::nullopt};
      if (b.high) result.high = *b.high - 1;
      Interval a = interval(x.a);
      if (a.low && *a.low >= 0 && a.high)
        result.high = result.high ? std::min(*result.high, *a.high) : *a.high;
      return result;
    }
    case AtomKind::kMin:
    case AtomKind::kMax: {
      Interval a = interval(x.a), b = interval(x.b);
      bool is_min = x.kind == AtomKind::kMin;
      auto both = [&](auto p, auto q) -> std::optional<int64_t> {
        if (p && q) return is_min ? std::min(*p, *q) : std::max(*p, *q);
        return std::nullopt;
      };
      auto either = [&](auto p, auto q) -> std::optional<int64_t> {
        if (p && q) return is_min ? std::min(*p, *q) : std::max(*p, *q);
        return p ? p : q;
      };
      return is_min ? Interval{both(a.low, b.low), either(a.high, b.high)}
                    : Interval{either(a.low, b.low), both(a.high, b.high)};
    }
    case AtomKind::kOpaque:
      return {};
  }
  return {};
}

Interval Simplifier::interval(const Poly& p) {
  Interval total{0, 0};
  for (const Poly::Term& t : p.terms) {
    Interval term{1, 1};
    for (int i = 0; i < t.monomial.degree; ++i) {
      const Atom x = atom(t.monomial.atoms[static_cast<size_t>(i)]);
      term = product(term, interval_of_atom(x));
    }
    term = scale_interval(term, t.coefficient);
    total = {add_ends(total.low, term.low), add_ends(total.high, term.high)};
  }
  return total;
}

}  // namespace gantry
