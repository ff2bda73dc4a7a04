// Dimensions: symbolic integer expressions in canonical form.
//
// Semantics. A dimension is a polynomial with int64 coefficients over atoms; an atom is a symbol (`N`) or an
// opaque function of dimensions: floordiv, mod, max, min (floor semantics: the remainder has the divisor's
// sign). Symbols stand for integers >= 0, or in a range that a user gave. Arithmetic on constants wraps never: overflow is a user error.
// Two dimensions that print alike are equal; the reverse is not promised.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gantry {

struct DimNode;  // defined in dim.cpp

/// Values that a symbol may have, both ends included.
struct DimRange {
  int64_t low = 0;
  int64_t high = std::numeric_limits<int64_t>::max();

  bool unlimited() const { return low == 0 && high == std::numeric_limits<int64_t>::max(); }
  friend bool operator==(const DimRange&, const DimRange&) = default;
};

/// An immutable symbolic integer; cheap to copy. Default: the constant 0.
class Dim {
 public:
  Dim() : Dim(int64_t{0}) {}
  Dim(int64_t constant);  // NOLINT: implicit by design, dimensions mix with integers everywhere
  Dim(int constant) : Dim(static_cast<int64_t>(constant)) {}  // NOLINT
  /// The symbol of that name ([A-Za-z_][A-Za-z0-9_.]*).
  static Dim symbol(std::string_view name);
  /// One whose values the program checks when it binds it. It is the same dimension as the symbol without a range.
  static Dim symbol(std::string_view name, DimRange range);
  /// Parses what str() prints: + - * ( ) integers, symbols, floordiv(a, b), mod(a, b), max(a, b), min(a, b).
  /// Throws a user error that quotes the text.
  static Dim parse(std::string_view text);

  bool is_constant() const;
  /// The value if constant.
  std::optional<int64_t> constant() const;
  /// The value; an internal error if it is not constant.
  int64_t value() const;
  bool is_symbol() const;

  /// Names of all symbols in it, sorted, once each.
  std::vector<std::string> symbols() const;
  /// What each of them may be.
  std::map<std::string, DimRange> symbol_ranges() const;
  /// Replaces symbols; those that are not in the map stay.
  Dim substitute(const std::map<std::string, Dim>& bindings) const;
  /// Value under the binding; a user error names a symbol that is missing, and overflow.
  int64_t evaluate(const std::map<std::string, int64_t>& bindings) const;
  std::string str() const;

  /// A lower bound that holds for all symbol values >= 0, if one is known.
  std::optional<int64_t> lower_bound() const;

  /// Postfix program of the expression for the module file: see device_runtime/schema/module.fbs (DimExpr).
  /// Visits operands before their operator.
  enum class Opcode : int32_t { kConstant, kSymbol, kAdd, kMul, kFloorDiv, kMod, kMax, kMin };
  void visit_postfix(
      const std::function<void(Opcode, int64_t constant, const std::string& symbol)>& visit) const;

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  /// floor(a / b). Exact where the polynomial a is a multiple of the monomial b. b == 0 is a user error.
  friend Dim floordiv(const Dim& a, const Dim& b);
  friend Dim mod(const Dim& a, const Dim& b);
  friend Dim max(const Dim& a, const Dim& b);
  friend Dim min(const Dim& a, const Dim& b);
  /// Structural equality of canonical forms.
  friend bool operator==(const Dim& a, const Dim& b);

 private:
  explicit Dim(std::shared_ptr<const DimNode> node) : node_(std::move(node)) {}
  friend struct DimNode;
  std::shared_ptr<const DimNode> node_;
};

/// ceil(a / b) for b > 0.
Dim ceildiv(const Dim& a, const Dim& b);
/// True where a and b are both constant and differ, or differ by a non-zero constant.
bool provably_different(const Dim& a, const Dim& b);

/// "1..8", "1.." where there is no upper end.
std::string to_string(const DimRange& range);

using Shape = std::vector<Dim>;
/// Product of all dimensions; 1 for a scalar.
Dim element_count(const Shape& shape);
/// "(N, 3, 224, 224)"
std::string to_string(const Shape& shape);
/// All dimensions' values if every one is constant.
std::optional<std::vector<int64_t>> constant_shape(const Shape& shape);

}  // namespace gantry
