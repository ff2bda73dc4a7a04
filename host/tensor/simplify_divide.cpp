// floordiv, mod, min and max of polynomials.
#include <algorithm>
#include <numeric>

#include "host/tensor/fold.h"
#include "host/tensor/simplifier.h"

namespace gantry {
namespace {

/// p = c q + r; the constant of r lies in [0, c).
void split_multiples(const Poly& p, int64_t c, Poly& q, Poly& r) {
  for (const Poly::Term& t : p.terms) {
    if (t.coefficient % c == 0) {
      q.add_term(t.monomial, t.coefficient / c);
    } else if (t.monomial.degree == 0) {
      q.add_term(t.monomial, floor_divide(t.coefficient, c));
      r.add_term(t.monomial, floor_modulo(t.coefficient, c));
    } else {
      r.add_term(t.monomial, t.coefficient);
    }
  }
}

/// Divisors 1 < g < c of c that some of p's coefficients share with it, each once.
std::vector<int64_t> shared_divisors(const Poly& p, int64_t c) {
  std::vector<int64_t> divisors;
  for (const Poly::Term& t : p.terms) {
    if (t.monomial.degree == 0) continue;
    int64_t g = std::gcd(t.coefficient, c);
    if (g > 1 && g < c && std::find(divisors.begin(), divisors.end(), g) == divisors.end())
      divisors.push_back(g);
  }
  return divisors;
}

/// p = b q + r for a divisor b of a single term.
bool split_by_term(const Poly& p, const Poly& b, Poly& q, Poly& r) {
  if (b.terms.size() != 1) return false;
  for (const Poly::Term& t : p.terms) {
    auto rest = divide(t.monomial, b.terms[0].monomial);
    if (rest && t.coefficient % b.terms[0].coefficient == 0) {
      q.add_term(*rest, t.coefficient / b.terms[0].coefficient);
    } else {
      r.add_term(t.monomial, t.coefficient);
    }
  }
  return true;
}

}  // namespace

Poly Simplifier::floordiv_poly(const Poly& a, const Poly& b) {
  if (b.is_constant()) {
    int64_t c = b.constant_term();
    if (c <= 0) return composite(AtomKind::kFloorDiv, a, b);
    return floordiv_constant(a, c);
  }
  return floordiv_symbolic(a, b);
}

Poly Simplifier::floordiv_constant(const Poly& a, int64_t c) {
  if (c == 1) return a;
  Poly q, r;
  split_multiples(a, c, q, r);
  if (r.is_constant() || in_range(r, Poly(c))) return q;
  for (int64_t g : shared_divisors(r, c)) {
    // floordiv(g r1 + r2, c) = floordiv(r1, c / g) if 0 <= r2 < g.
    Poly r1, r2;
    split_multiples(r, g, r1, r2);
    if (r2.is_constant() || in_range(r2, Poly(g))) return add(q, floordiv_constant(r1, c / g));
  }
  // floordiv(floordiv(x, d) + k, c) = floordiv(x + k d, c d)
  Poly without_constant = add(r, Poly(-r.constant_term()));
  if (int32_t id = without_constant.single_atom(); id >= 0 && atom(id).kind == AtomKind::kFloorDiv) {
    const Atom inner = atom(id);
    if (inner.b.is_constant() && inner.b.constant_term() > 0) {
      int64_t d = inner.b.constant_term();
      Poly x = add(inner.a, Poly(exact_mul(r.constant_term(), d)));
      return add(q, floordiv_constant(x, exact_mul(c, d)));
    }
  }
  // floordiv(mod(x, c d), c) = mod(floordiv(x, c), d): digits of one index in the form that recombine()
  // knows.
  if (int32_t id = r.single_atom(); id >= 0 && atom(id).kind == AtomKind::kMod) {
    const Atom inner = atom(id);
    if (inner.b.is_constant() && inner.b.constant_term() > 0 && inner.b.constant_term() % c == 0)
      return add(q, mod_constant(floordiv_constant(inner.a, c), inner.b.constant_term() / c));
  }
  return add(q, composite(AtomKind::kFloorDiv, r, Poly(c)));
}

Poly Simplifier::floordiv_symbolic(const Poly& a, const Poly& b) {
  if (a == b) return Poly(1);
  if (a == scale(b, -1)) return Poly(-1);
  Poly q, r;
  if (split_by_term(a, b, q, r)) {
    if (r.terms.empty() || in_range(r, b)) return q;
    if (r.is_constant() && r.constant_term() == -1) return add(q, Poly(-1));
  } else {
    r = a;
    if (in_range(a, b)) return Poly(0);
  }
  if (int32_t id = r.single_atom(); id >= 0 && atom(id).kind == AtomKind::kFloorDiv) {
    const Atom inner = atom(id);
    return add(q, floordiv_poly(inner.a, multiply(inner.b, b)));
  }
  return add(q, composite(AtomKind::kFloorDiv, r, b));
}

Poly Simplifier::mod_poly(const Poly& a, const Poly& b) {
  if (b.is_constant()) {
    int64_t c = b.constant_term();
    return c <= 0 ? composite(AtomKind::kMod, a, b) : mod_constant(a, c);
  }
  if (a == b) return Poly(0);
  Poly q, r;
  if (!split_by_term(a, b, q, r)) r = a;
  if (r.terms.empty() || in_range(r, b)) return r;
  return composite(AtomKind::kMod, r, b);
}

Poly Simplifier::mod_constant(const Poly& a, int64_t c) {
  if (c == 1) return Poly(0);
  Poly q, r;
  split_multiples(a, c, q, r);
  if (r.is_constant() || in_range(r, Poly(c))) return r;
  for (const Poly::Term& t : r.terms) {
    // k mod(x, d) and k x are the same modulo c if c divides k d.
    if (t.monomial.degree != 1 || atom(t.monomial.atoms[0]).kind != AtomKind::kMod) continue;
    const Atom inner = atom(t.monomial.atoms[0]);
    if (!inner.b.is_constant() || exact_mul(inner.b.constant_term(), t.coefficient) % c != 0) continue;
    Poly next = r;
    next.add_term(t.monomial, -t.coefficient);
    return mod_constant(add(next, inner.a, t.coefficient), c);
  }
  for (int64_t g : shared_divisors(r, c)) {
    Poly r1, r2;
    split_multiples(r, g, r1, r2);
    if (r2.is_constant() || in_range(r2, Poly(g))) return add(r2, mod_constant(r1, c / g), g);
  }
  return composite(AtomKind::kMod, r, Poly(c));
}

Poly Simplifier::min_max_poly(bool is_min, const Poly& a, const Poly& b) {
  Poly difference = add(b, a, -1);
  if (nonnegative(difference)) return is_min ? a : b;
  if (nonnegative(scale(difference, -1))) return is_min ? b : a;
  return composite(is_min ? AtomKind::kMin : AtomKind::kMax, a, b);
}

/// mod(x, c) written as x - c floordiv(x, c), where c is constant.
Poly Simplifier::without_mods(const Poly& p) {
  Poly result;
  for (const Poly::Term& t : p.terms) {
    Poly value;
    value.add_term(t.monomial, t.coefficient);
    if (t.monomial.degree == 1 && atom(t.monomial.atoms[0]).kind == AtomKind::kMod) {
      const Atom x = atom(t.monomial.atoms[0]);
      if (x.b.is_constant() && x.b.constant_term() > 0) {
        int64_t c = x.b.constant_term();
        value = scale(add(x.a, floordiv_constant(x.a, c), exact_mul(c, -1)), t.coefficient);
      }
    }
    result = add(result, value);
  }
  return result;
}

/// A term rest floordiv(y, c) of p with that coefficient, where y = x (mod c), and y.
std::optional<std::pair<Monomial, Poly>> Simplifier::partner_of(const Poly& p, const Atom& x,
                                                                const Monomial& rest, int64_t coefficient) {
  if (!x.b.is_constant() || x.b.constant_term() <= 0) return std::nullopt;
  int64_t c = x.b.constant_term();
  for (const Poly::Term& t : p.terms) {
    auto quotient = t.coefficient == coefficient ? divide(t.monomial, rest) : std::nullopt;
    if (!quotient || quotient->degree != 1) continue;
    const Atom y = atom(quotient->atoms[0]);
    if (y.kind != AtomKind::kFloorDiv || y.b != x.b) continue;
    Poly difference = without_mods(add(x.a, y.a, -1));
    bool multiple = std::all_of(difference.terms.begin(), difference.terms.end(),
                                [&](const Poly::Term& d) { return d.coefficient % c == 0; });
    if (multiple) return std::pair(t.monomial, y.a);
  }
  return std::nullopt;
}

Poly Simplifier::recombine(Poly p) {
  for (size_t i = 0; i < p.terms.size(); ++i) {
    const Poly::Term term = p.terms[i];
    for (int j = 0; j < term.monomial.degree; ++j) {
      int32_t id = term.monomial.atoms[static_cast<size_t>(j)];
      if (atom(id).kind != AtomKind::kMod) continue;
      const Atom x = atom(id);
      Monomial rest = *divide(term.monomial, Poly::atom(id).terms[0].monomial);
      if (x.b.terms.size() != 1) continue;
      Poly quotient = floordiv_poly(x.a, x.b);
      int32_t q = quotient.single_atom();
      if (q < 0) continue;
      Monomial wanted = multiply(multiply(Poly::atom(q).terms[0].monomial, x.b.terms[0].monomial), rest);
      int64_t coefficient = exact_mul(term.coefficient, x.b.terms[0].coefficient);
      Poly sum = x.a;
      if (p.coefficient_of(wanted) != coefficient) {
        // floordiv(y, c) goes with mod(x, c) as well if x and y differ by a multiple of c.
        auto partner = partner_of(p, x, rest, coefficient);
        if (!partner) continue;
        sum = partner->second;
        wanted = partner->first;
      }
      p.add_term(wanted, -coefficient);
      p.add_term(term.monomial, -term.coefficient);
      Poly factor;
      factor.add_term(rest, term.coefficient);
      return recombine(add(p, multiply(factor, sum)));
    }
  }
  return p;
}

}  // namespace gantry
