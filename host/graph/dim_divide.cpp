// Division, remainder, maximum and minimum of dimensions, and what simplifies them.
#include <algorithm>
#include <limits>
#include <numeric>

#include "host/graph/dim_at_least.h"
#include "host/graph/dim_node.h"
#include "host/support/error.h"

namespace gantry {
namespace {

/// a == divisor * quotient + rest.
struct Division {
  Dim quotient, rest;
};

Dim monomial(int64_t coefficient, Factors factors) {
  return DimNode::make({DimTerm{coefficient, std::move(factors)}});
}

// Divides every coefficient by a positive constant, remainders in [0, divisor).
Division divide_by_constant(const Dim& a, int64_t divisor) {
  Terms quotient, rest;
  for (const DimTerm& term : DimNode::terms_of(a)) {
    quotient.push_back({floordiv_int(term.coefficient, divisor), term.factors});
    rest.push_back({mod_int(term.coefficient, divisor), term.factors});
  }
  return {DimNode::make(std::move(quotient)), DimNode::make(std::move(rest))};
}

// What is left of a division may simplify to what has more to divide.
bool is_divided(const Dim& rest, int64_t divisor) {
  return std::ranges::all_of(DimNode::terms_of(rest), [&](const DimTerm& term) {
    return term.coefficient >= 0 && term.coefficient < divisor;
  });
}

// Moves the terms of `a` that are multiples of the divisor's leading term into the quotient; what is left has
// no such term. With a divisor of one term this is the division of each term, with more it is long division,
// which is used only if it leaves nothing.
Division divide_by_polynomial(const Dim& a, const Dim& divisor) {
  const Terms& divisor_terms = DimNode::terms_of(divisor);
  const DimTerm& lead = divisor_terms[0];
  Dim quotient = 0, rest = a;
  // A single term removes one term a step; long division is given up after a while.
  const size_t max_steps = divisor_terms.size() == 1 ? DimNode::terms_of(a).size() : 256;
  for (size_t step = 0; step < max_steps; ++step) {
    bool divided = false;
    for (const DimTerm& term : DimNode::terms_of(rest)) {
      auto factors = divide_factors(term.factors, lead.factors);
      if (!factors || mod_int(term.coefficient, lead.coefficient) != 0) continue;
      const Dim part = monomial(floordiv_int(term.coefficient, lead.coefficient), *factors);
      quotient = quotient + part;
      rest = rest - part * divisor;
      divided = true;
      break;
    }
    if (!divided) break;
  }
  if (divisor_terms.size() > 1 && !(rest == Dim(0))) return {0, a};
  return {quotient, rest};
}

// The largest monomial that divides every term of both.
Dim common_monomial(const Dim& a, const Dim& b) {
  int64_t divisor = 0;
  std::optional<Factors> common;
  for (const Dim* dim : {&a, &b}) {
    for (const DimTerm& term : DimNode::terms_of(*dim)) {
      if (term.coefficient == std::numeric_limits<int64_t>::min()) return 1;
      divisor = std::gcd(divisor, term.coefficient);
      if (!common) {
        common = term.factors;
        continue;
      }
      Factors both;
      std::set_intersection(common->begin(), common->end(), term.factors.begin(), term.factors.end(),
                            std::back_inserter(both),
                            [](const AtomPtr& p, const AtomPtr& q) { return p->text < q->text; });
      common = std::move(both);
    }
  }
  return monomial(std::max<int64_t>(divisor, 1), common.value_or(Factors{}));
}

// Greatest common divisor of `start` and the coefficients of all terms but the constant.
int64_t coefficient_gcd(const Dim& a, int64_t start) {
  for (const DimTerm& term : DimNode::terms_of(a)) {
    if (!term.factors.empty()) start = std::gcd(start, term.coefficient);
  }
  return start;
}

// The only atom of `a` == atom + constant, if it is a floordiv by a positive constant.
const DimAtom* inner_quotient(const Dim& a) {
  const Terms& terms = DimNode::terms_of(a);
  if (terms.empty() || terms.size() > 2 || terms[0].coefficient != 1 || terms[0].factors.size() != 1)
    return nullptr;
  if (terms.size() == 2 && !terms[1].factors.empty()) return nullptr;
  const DimAtom& atom = *terms[0].factors[0];
  if (atom.kind != AtomKind::kFloorDiv) return nullptr;
  const auto divisor = atom.b.constant();
  return divisor && *divisor > 0 ? &atom : nullptr;
}

bool inside(const Dim& a, int64_t divisor) {
  const DimBounds bounds = bounds_of(a);
  return bounds.low && *bounds.low >= 0 && bounds.high && *bounds.high < divisor;
}

Dim floordiv_by_constant(const Dim& a, int64_t divisor) {
  if (divisor == 1) return a;
  auto [quotient, rest] = divide_by_constant(a, divisor);
  if (!is_divided(rest, divisor)) return quotient + floordiv_by_constant(rest, divisor);
  if (rest.is_constant() || inside(rest, divisor)) return quotient;  // a constant rest is in [0, divisor)
  if (const int64_t common = coefficient_gcd(rest, divisor); common > 1) {
    // floor((g*x + k) / (g*c)) == floor((x + floor(k / g)) / c)
    const Dim scaled = divide_by_constant(rest, common).quotient;
    return quotient + floordiv_by_constant(scaled, divisor / common);
  }
  if (const DimAtom* inner = inner_quotient(rest)) {
    // floor((floor(x / b) + k) / c) == floor((x + k*b) / (b*c))
    return quotient + floordiv(inner->a + Dim(constant_term(rest)) * inner->b, inner->b * Dim(divisor));
  }
  return quotient + DimNode::from_atom(AtomKind::kFloorDiv, rest, divisor);
}

// mod(x, d) inside a remainder by a divisor of d is as good as x. Returns `a` itself if there is none.
Dim drop_inner_remainders(const Dim& a, int64_t divisor) {
  Dim result = a;
  for (const DimTerm& term : DimNode::terms_of(a)) {
    if (term.factors.size() != 1 || term.factors[0]->kind != AtomKind::kMod) continue;
    const DimAtom& atom = *term.factors[0];
    const auto inner = atom.b.constant();
    if (!inner || mod_int(*inner, divisor) != 0) continue;
    result = result - monomial(term.coefficient, term.factors) + Dim(term.coefficient) * atom.a;
  }
  return result;
}

Dim mod_by_constant(const Dim& a, int64_t divisor) {
  if (divisor == 1) return 0;
  const Dim rest = divide_by_constant(drop_inner_remainders(a, divisor), divisor).rest;
  if (!is_divided(rest, divisor)) return mod_by_constant(rest, divisor);
  if (rest.is_constant() || inside(rest, divisor)) return rest;
  if (!(drop_inner_remainders(rest, divisor) == rest)) return mod_by_constant(rest, divisor);
  if (const int64_t common = coefficient_gcd(rest, divisor); common > 1) {
    // mod(g*x + g*k + r, g*c) == g*mod(x + k, c) + r for 0 <= r < g
    auto [scaled, remainder] = divide_by_constant(rest, common);
    return Dim(common) * mod_by_constant(scaled, divisor / common) + remainder;
  }
  return DimNode::from_atom(AtomKind::kMod, rest, divisor);
}

void require_divisor(const Dim& a, const Dim& b) {
  if (b == Dim(0)) user_error("the dimension {} is divided by zero", a.str());
}

// True where the sign of the divisor should be turned: its leading coefficient is negative.
bool negative_lead(const Dim& b) {
  return DimNode::terms_of(b)[0].coefficient < 0;
}

void flatten(AtomKind kind, const Dim& dim, std::vector<Dim>& operands) {
  const Terms& terms = DimNode::terms_of(dim);
  if (terms.size() == 1 && terms[0].coefficient == 1 && terms[0].factors.size() == 1 &&
      terms[0].factors[0]->kind == kind) {
    flatten(kind, terms[0].factors[0]->a, operands);
    flatten(kind, terms[0].factors[0]->b, operands);
  } else {
    operands.push_back(dim);
  }
}

// True if a maximum (minimum) that has `better` among its operands does not need `other`.
bool dominates(AtomKind kind, const Dim& better, const Dim& other) {
  const auto low = kind == AtomKind::kMax ? least_difference(better, other) : least_difference(other, better);
  return low && *low >= 0;
}

Dim extremum(AtomKind kind, const Dim& a, const Dim& b) {
  std::vector<Dim> all, kept;
  flatten(kind, a, all);
  flatten(kind, b, all);
  for (const Dim& candidate : all) {
    if (std::any_of(kept.begin(), kept.end(), [&](const Dim& k) { return dominates(kind, k, candidate); }))
      continue;
    std::erase_if(kept, [&](const Dim& k) { return dominates(kind, candidate, k); });
    kept.push_back(candidate);
  }
  std::sort(kept.begin(), kept.end(), [](const Dim& p, const Dim& q) { return p.str() < q.str(); });
  Dim result = kept[0];
  for (size_t i = 1; i < kept.size(); ++i) result = DimNode::from_atom(kind, result, kept[i]);
  return result;
}

}  // namespace

Dim floordiv(const Dim& a, const Dim& b) {
  require_divisor(a, b);
  const auto divisor = b.constant();
  if (divisor && a.is_constant()) return floordiv_int(a.value(), *divisor);
  if (negative_lead(b)) return floordiv(a * Dim(-1), b * Dim(-1));
  if (divisor) return floordiv_by_constant(a, *divisor);
  auto [quotient, rest] = divide_by_polynomial(a, b);
  if (rest == Dim(0)) return quotient;
  const Dim common = common_monomial(rest, b);
  if (!(common == Dim(1))) {
    return quotient +
           floordiv(divide_by_polynomial(rest, common).quotient, divide_by_polynomial(b, common).quotient);
  }
  return quotient + DimNode::from_atom(AtomKind::kFloorDiv, rest, b);
}

Dim mod(const Dim& a, const Dim& b) {
  require_divisor(a, b);
  const auto divisor = b.constant();
  if (divisor && a.is_constant()) return mod_int(a.value(), *divisor);
  if (negative_lead(b)) return mod(a * Dim(-1), b * Dim(-1)) * Dim(-1);
  if (divisor) return mod_by_constant(a, *divisor);
  const Dim rest = divide_by_polynomial(a, b).rest;
  if (rest == Dim(0)) return 0;
  const Dim common = common_monomial(rest, b);
  if (!(common == Dim(1))) {
    return common *
           mod(divide_by_polynomial(rest, common).quotient, divide_by_polynomial(b, common).quotient);
  }
  return DimNode::from_atom(AtomKind::kMod, rest, b);
}

Dim max(const Dim& a, const Dim& b) {
  return extremum(AtomKind::kMax, a, b);
}
Dim min(const Dim& a, const Dim& b) {
  return extremum(AtomKind::kMin, a, b);
}

}  // namespace gantry
