// Inside of dimensions, shared by the dim_*.cpp files.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/graph/dim.h"

namespace gantry {

enum class AtomKind : uint8_t { kSymbol, kFloorDiv, kMod, kMax, kMin, kBroadcast };

/// A closed interval; a missing end is unbounded or unknown.
struct DimBounds {
  std::optional<int64_t> low, high;
};
DimBounds bounds_of(const Dim& dim);
/// Whether the constants in a and b are so far apart that a - b, or what follows from it, may overflow.
bool are_far_apart(const Dim& a, const Dim& b);

/// What a polynomial is over: a symbol, or a function of two dimensions that does not simplify.
struct DimAtom {
  AtomKind kind = AtomKind::kSymbol;
  std::string text;  ///< as printed; equal atoms have equal texts, and atoms are ordered by it
  Dim a, b;          ///< operands; unused for a symbol
  DimRange range;    ///< of a symbol

  /// Looked for once: those of a sum ask its atoms many times, and these their operands' atoms.
  const DimBounds& bounds() const;

 private:
  mutable std::once_flag bounds_are_known_;
  mutable DimBounds bounds_;
};
using AtomPtr = std::shared_ptr<const DimAtom>;
/// A product of atoms, sorted by text; a power repeats its atom.
using Factors = std::vector<AtomPtr>;

/// coefficient * product of factors; no factors: a constant.
struct DimTerm {
  int64_t coefficient = 0;
  Factors factors;
};
using Terms = std::vector<DimTerm>;

/// A polynomial: terms in graded lexicographic order, highest degree first, without zero coefficients.
struct DimNode {
  Terms terms;

  static const Terms& terms_of(const Dim& dim) { return dim.node_->terms; }
  /// From terms that are already canonical.
  static Dim wrap(Terms terms) { return Dim(std::make_shared<const DimNode>(DimNode{std::move(terms)})); }
  /// Sorts, merges and drops zeros; what is added to a maximum or minimum goes inside where it cancels an
  /// operand: of equal sums all are the same, however they came about.
  static Dim make(Terms terms);
  static Dim from_atom(AtomKind kind, const Dim& a, const Dim& b);
};

/// -1, 0, 1 in the order of terms within a polynomial (the highest term is the smallest).
int compare_factors(const Factors& a, const Factors& b);
/// The factors of `all` without those of `part`, or nothing if `part` does not divide it.
std::optional<Factors> divide_factors(const Factors& all, const Factors& part);

/// The term without factors; 0 where there is none.
int64_t constant_term(const Dim& dim);

// Arithmetic that reports overflow as a user error.
int64_t checked_add(int64_t a, int64_t b);
int64_t checked_mul(int64_t a, int64_t b);
/// Floor semantics; b == 0 is a user error.
int64_t floordiv_int(int64_t a, int64_t b);
int64_t mod_int(int64_t a, int64_t b);

}  // namespace gantry
