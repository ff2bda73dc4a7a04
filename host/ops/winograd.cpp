#include "host/ops/winograd.h"

#include <algorithm>
#include <cmath>

#include "host/support/error.h"

namespace gantry::ops {
namespace {

using Row = std::vector<double>;
using Element = std::function<Expr(int64_t)>;

const WinogradTransforms kTwo{{{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}},
                              {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}},
                              {{1, 1, 1, 0}, {0, 1, -1, -1}}};

const WinogradTransforms kFour{{{1, 0, -97.0 / 36, 0, 1, 0},
                                {0, -3.0 / 2, -9.0 / 4, 2.0 / 3, 1, 0},
                                {0, 3.0 / 2, -9.0 / 4, -2.0 / 3, 1, 0},
                                {0, -2.0 / 3, -4.0 / 9, 3.0 / 2, 1, 0},
                                {0, 2.0 / 3, -4.0 / 9, -3.0 / 2, 1, 0},
                                {0, 1, 0, -97.0 / 36, 0, 1}},
                               {{1, 0, 0},
                                {-27.0 / 65, -18.0 / 65, -12.0 / 65},
                                {-27.0 / 65, 18.0 / 65, -12.0 / 65},
                                {18.0 / 65, 27.0 / 65, 81.0 / 130},
                                {18.0 / 65, -27.0 / 65, 81.0 / 130},
                                {0, 0, 1}},
                               {{1, 3.0 / 2, 3.0 / 2, 4.0 / 9, 4.0 / 9, 0},
                                {0, 1, -1, 2.0 / 3, -2.0 / 3, 0},
                                {0, 2.0 / 3, 2.0 / 3, 1, 1, 0},
                                {0, 4.0 / 9, -4.0 / 9, 3.0 / 2, -3.0 / 2, 1}}};

const WinogradTransforms kSix{{{1, 0, -21.0 / 4, 0, 21.0 / 4, 0, -1, 0},
                               {0, 1, 1, -17.0 / 4, -17.0 / 4, 1, 1, 0},
                               {0, -1, 1, 17.0 / 4, -17.0 / 4, -1, 1, 0},
                               {0, 0.5, 0.25, -2.5, -1.25, 2, 1, 0},
                               {0, -0.5, 0.25, 2.5, -1.25, -2, 1, 0},
                               {0, 2, 4, -2.5, -5, 0.5, 1, 0},
                               {0, -2, 4, 2.5, -5, -0.5, 1, 0},
                               {0, -1, 0, 21.0 / 4, 0, -21.0 / 4, 0, 1}},
                              {{1, 0, 0},
                               {-2.0 / 9, -2.0 / 9, -2.0 / 9},
                               {-2.0 / 9, 2.0 / 9, -2.0 / 9},
                               {1.0 / 90, 1.0 / 45, 2.0 / 45},
                               {1.0 / 90, -1.0 / 45, 2.0 / 45},
                               {32.0 / 45, 16.0 / 45, 8.0 / 45},
                               {32.0 / 45, -16.0 / 45, 8.0 / 45},
                               {0, 0, 1}},
                              {{1, 1, 1, 1, 1, 1, 1, 0},
                               {0, 1, -1, 2, -2, 0.5, -0.5, 0},
                               {0, 1, 1, 4, 4, 0.25, 0.25, 0},
                               {0, 1, -1, 8, -8, 0.125, -0.125, 0},
                               {0, 1, 1, 16, 16, 1.0 / 16, 1.0 / 16, 0},
                               {0, 1, -1, 32, -32, 1.0 / 32, -1.0 / 32, 1}}};

/// Adds c * x; `total` may be null.
Expr add_term(const Expr& total, double c, const Expr& x) {
  const bool negative = c < 0;
  const double magnitude = std::abs(c);
  Expr term = magnitude == 1 ? x : x * const_of(x.type().dtype, magnitude);
  if (!total) return negative ? -term : term;
  return negative ? total - term : total + term;
}

/// sum of coefficients[i] * element(i) without the terms that vanish, null if all do; begins with a term that
/// needs no operation, if there is one. Terms i and i + 1 for odd i of equal magnitude are combined first.
Expr combination(const Row& coefficients, const Element& element) {
  struct Term {
    double factor;
    Expr value;
  };
  std::vector<Term> terms;
  for (size_t i = 0; i < coefficients.size(); ++i) {
    const double c = coefficients[i];
    if (c == 0) continue;
    const auto at = static_cast<int64_t>(i);
    const double next = i + 1 < coefficients.size() ? coefficients[i + 1] : 0;
    if (i % 2 == 1 && std::abs(c) == std::abs(next)) {
      terms.push_back({c, c == next ? element(at) + element(at + 1) : element(at) - element(at + 1)});
      ++i;
    } else {
      terms.push_back({c, element(at)});
    }
  }
  auto first = std::find_if(terms.begin(), terms.end(), [](const Term& t) { return t.factor == 1; });
  if (first != terms.end()) std::rotate(terms.begin(), first, first + 1);
  Expr total;
  for (const Term& term : terms) total = add_term(total, term.factor, term.value);
  return total;
}

/// Row r, sharing with its partner of the opposite point (rows 1 and 2, 3 and 4, …).
Expr one_row(const Matrix& matrix, size_t r, const Element& element) {
  const size_t first = r % 2 == 1 ? r : r - 1;
  if (r == 0 || first + 1 >= matrix.size()) return combination(matrix[r], element);
  const Row &plus = matrix[first], &minus = matrix[first + 1];
  Row even(plus.size()), odd(plus.size());
  for (size_t i = 0; i < plus.size(); ++i) {
    if (std::abs(plus[i]) != std::abs(minus[i])) return combination(matrix[r], element);
    (plus[i] == minus[i] ? even : odd)[i] = plus[i];
  }
  // Divided by the last coefficient, so that one multiply-add joins the halves.
  double scale = 1;
  for (double c : odd) scale = c == 0 ? scale : c;
  for (double& c : odd) c /= scale;
  Expr e = combination(even, element), o = combination(odd, element);
  if (!e || !o) return combination(matrix[r], element);
  return add_term(e, r == first ? scale : -scale, o);
}

}  // namespace

const WinogradTransforms& winograd_transforms(int64_t tile) {
  internal_check(tile == 2 || tile == 4 || tile == 6, "no Winograd algorithm has tiles of {}", tile);
  return tile == 2 ? kTwo : tile == 4 ? kFour : kSix;
}

Expr winograd_row(const Matrix& matrix, const Expr& row, const Element& element) {
  Expr chosen = one_row(matrix, matrix.size() - 1, element);
  for (size_t r = matrix.size() - 1; r-- > 0;) {
    chosen = select(eq(row, static_cast<int64_t>(r)), one_row(matrix, r, element), chosen);
  }
  return chosen;
}

}  // namespace gantry::ops
