// Polynomials with int64 coefficients over atoms: the canonical form of index arithmetic in the simplifier.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace gantry {

/// Thrown (and caught by the simplifier) when a coefficient leaves int64 or a product has too many factors.
struct PolyOverflow {};

/// A product of atoms, ascending; the empty one is 1.
struct Monomial {
  static constexpr int kMaxDegree = 7;
  uint8_t degree = 0;
  std::array<int32_t, kMaxDegree> atoms{};
  auto operator<=>(const Monomial&) const = default;
  bool contains(int32_t atom) const;
  int count(int32_t atom) const;
};
Monomial multiply(const Monomial& a, const Monomial& b);
/// a / b if b divides a.
std::optional<Monomial> divide(const Monomial& a, const Monomial& b);

struct Poly {
  struct Term {
    Monomial monomial;
    int64_t coefficient = 0;
    bool operator==(const Term&) const = default;
  };
  std::vector<Term> terms;  ///< ascending monomials, no zero coefficient

  Poly() = default;
  Poly(int64_t constant);  // NOLINT
  static Poly atom(int32_t id);
  bool is_constant() const { return terms.empty() || (terms.size() == 1 && terms[0].monomial.degree == 0); }
  int64_t constant_term() const {
    return !terms.empty() && terms[0].monomial.degree == 0 ? terms[0].coefficient : 0;
  }
  /// The atom if the polynomial is exactly one, else -1.
  int32_t single_atom() const;
  void add_term(const Monomial& monomial, int64_t coefficient);
  int64_t coefficient_of(const Monomial& monomial) const;
  bool operator==(const Poly&) const = default;
};

Poly add(const Poly& a, const Poly& b, int64_t scale_of_b = 1);
Poly scale(const Poly& a, int64_t factor);
Poly multiply(const Poly& a, const Poly& b);
size_t hash_of(const Poly& p);

int64_t exact_add(int64_t a, int64_t b);
int64_t exact_mul(int64_t a, int64_t b);

}  // namespace gantry
