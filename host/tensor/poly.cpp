#include "host/tensor/poly.h"

#include <algorithm>

namespace gantry {

int64_t exact_add(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) throw PolyOverflow();
  return sum;
}
int64_t exact_mul(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) throw PolyOverflow();
  return product;
}

int Monomial::count(int32_t atom) const {
  return static_cast<int>(std::count(atoms.begin(), atoms.begin() + degree, atom));
}
bool Monomial::contains(int32_t atom) const {
  return count(atom) > 0;
}

Monomial multiply(const Monomial& a, const Monomial& b) {
  if (a.degree + b.degree > Monomial::kMaxDegree) throw PolyOverflow();
  Monomial product;
  product.degree = static_cast<uint8_t>(a.degree + b.degree);
  std::merge(a.atoms.begin(), a.atoms.begin() + a.degree, b.atoms.begin(), b.atoms.begin() + b.degree,
             product.atoms.begin());
  return product;
}

std::optional<Monomial> divide(const Monomial& a, const Monomial& b) {
  Monomial quotient;
  int j = 0;
  for (int i = 0; i < a.degree; ++i) {
    if (j < b.degree && a.atoms[static_cast<size_t>(i)] == b.atoms[static_cast<size_t>(j)]) {
      ++j;
    } else {
      quotient.atoms[quotient.degree++] = a.atoms[static_cast<size_t>(i)];
    }
  }
  if (j < b.degree) return std::nullopt;
  return quotient;
}

Poly::Poly(int64_t constant) {
  if (constant != 0) terms.push_back({Monomial(), constant});
}

Poly Poly::atom(int32_t id) {
  Poly p;
  Monomial m;
  m.degree = 1;
  m.atoms[0] = id;
  p.terms.push_back({m, 1});
  return p;
}

int32_t Poly::single_atom() const {
  bool single = terms.size() == 1 && terms[0].coefficient == 1 && terms[0].monomial.degree == 1;
  return single ? terms[0].monomial.atoms[0] : -1;
}

void Poly::add_term(const Monomial& monomial, int64_t coefficient) {
  auto it = std::lower_bound(terms.begin(), terms.end(), monomial,
                             [](const Term& t, const Monomial& m) { return t.monomial < m; });
  if (it == terms.end() || it->monomial != monomial) {
    if (coefficient != 0) terms.insert(it, {monomial, coefficient});
    return;
  }
  it->coefficient = exact_add(it->coefficient, coefficient);
  if (it->coefficient == 0) terms.erase(it);
}

int64_t Poly::coefficient_of(const Monomial& monomial) const {
  auto it = std::lower_bound(terms.begin(), terms.end(), monomial,
                             [](const Term& t, const Monomial& m) { return t.monomial < m; });
  return it != terms.end() && it->monomial == monomial ? it->coefficient : 0;
}

Poly add(const Poly& a, const Poly& b, int64_t scale_of_b) {
  Poly sum = a;
  for (const Poly::Term& t : b.terms) sum.add_term(t.monomial, exact_mul(t.coefficient, scale_of_b));
  return sum;
}

Poly scale(const Poly& a, int64_t factor) {
  if (factor == 0) return {};
  Poly scaled = a;
  for (Poly::Term& t : scaled.terms) t.coefficient = exact_mul(t.coefficient, factor);
  return scaled;
}

Poly multiply(const Poly& a, const Poly& b) {
  if (a.terms.size() * b.terms.size() > 64) throw PolyOverflow();
  Poly product;
  for (const Poly::Term& x : a.terms) {
    for (const Poly::Term& y : b.terms) {
      product.add_term(multiply(x.monomial, y.monomial), exact_mul(x.coefficient, y.coefficient));
    }
  }
  return product;
}

size_t hash_of(const Poly& p) {
  size_t hash = 1469598103934665603ULL;
  auto mix = [&](uint64_t value) { hash = (hash ^ value) * 1099511628211ULL; };
  for (const Poly::Term& t : p.terms) {
    for (int i = 0; i < t.monomial.degree; ++i)
      mix(static_cast<uint64_t>(t.monomial.atoms[static_cast<size_t>(i)]));
    mix(static_cast<uint64_t>(t.coefficient) * 31 + t.monomial.degree);
  }
  return hash;
}

}  // namespace gantry
