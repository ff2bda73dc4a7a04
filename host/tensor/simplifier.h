// The simplifier's state, for passes that simplify many expressions of one loop nest.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "host/tensor/poly.h"
#include "host/tensor/simplify.h"

namespace gantry {

/// Simplifies scalar kI64 arithmetic through polynomials over atoms (variables, floordiv, mod, min, max,
/// anything else as it is); other expressions keep their shape. Divisors of symbols and bound variables are
/// assumed positive, unless they are shown to be negative; those with data in them are not.
class Simplifier {
 public:
  /// Declares low <= var < low + extent. Variables that a range mentions must be bound before.
  void bind(const Expr& var, const Expr& low, const Expr& extent);
  bool is_bound(const VarNode* var) const;
  /// Assumes the condition (a conjunction; parts that are not linear comparisons are ignored) until the count
  /// of facts is reset to what facts() was.
  void assume(const Expr& condition);
  size_t facts() const { return facts_.size(); }
  void forget(size_t facts);

  Expr simplify(const Expr& e);
  bool prove(const Expr& condition);
  Interval bounds(const Expr& e);

  /// e = fixed + varying with fixed free of the variables that `inner` accepts. Bounds of the varying part as
  /// constants, where it is linear enough; empty if no constant bounds are known.
  struct Range {
    Expr low;        ///< free of inner variables
    int64_t extent;  ///< constant
  };
  std::optional<Range> range_over(const Expr& e, const std::function<bool(const VarNode*)>& inner);

 private:
  enum class AtomKind : uint8_t { kVar, kFloorDiv, kMod, kMin, kMax, kOpaque };
  struct Atom {
    AtomKind kind = AtomKind::kOpaque;
    Expr expr;
    Poly a, b;       ///< operands of floordiv, mod, min, max
    int order = 0;   ///< the innermost bound variable inside; symbols: -1
    int height = 0;  ///< nesting of atoms
    bool bounded = false;
    Poly low, high;  ///< bounded variables
  };
  using Memo = std::unordered_map<const ExprNode*, std::pair<Expr, Expr>>;

  const Atom& atom(int32_t id) const { return atoms_[static_cast<size_t>(id)]; }
  int32_t intern_var(const Expr& var);
  int32_t intern_opaque(const Expr& e);
  Poly composite(AtomKind kind, const Poly& a, const Poly& b);
  Expr build(const Poly& p);
  Expr build_term(const Monomial& monomial, int64_t coefficient);

  Expr visit(const Expr& e);
  Expr visit_children(const Expr& e);
  Expr visit_comparison(const BinaryNode* node);
  Expr positive_form(const Poly& gap);
  void narrow(const Poly& fact);
  Expr visit_conditional(const Expr& e, const Expr& condition, const Expr& if_true, const Expr& if_false,
                         bool lazy);
  Expr visit_under(const Expr& condition, const Expr& e);
  Poly to_poly(const Expr& e);
  Poly binary_poly(const BinaryNode* node, const Expr& e);
  template <typename Predicate>
  bool has_atom(const Poly& p, const Predicate& is_so) const;
  bool has_opaque(const Poly& p) const;
  bool is_size(const Poly& b);  ///< whether a divisor is taken for > 0

  Poly floored_poly(BinaryOp op, const Poly& a, const Poly& b);  ///< floordiv or mod
  Poly floordiv_poly(const Poly& a, const Poly& b);
  Poly floordiv_constant(const Poly& a, int64_t c);
  Poly floordiv_symbolic(const Poly& a, const Poly& b);
  Poly mod_poly(const Poly& a, const Poly& b);
  Poly mod_constant(const Poly& a, int64_t c);
  Poly min_max_poly(bool is_min, const Poly& a, const Poly& b);
  /// (x mod c) k + (x floordiv c) k c -> k x.
  Poly recombine(Poly p);
  Poly without_mods(const Poly& p);
  std::optional<std::pair<Monomial, Poly>> partner_of(const Poly& p, const Atom& x, const Monomial& rest,
                                                      int64_t coefficient);

  bool nonnegative(const Poly& p);
  bool nonnegative(const Poly& p, int& budget, bool use_facts);
  bool nonnegative_with(const Poly& q, const Poly& r, int32_t x, int& budget);
  bool nonnegative_floordiv(const Poly& q, const Poly& r, const Atom& x, bool positive, int& budget);
  bool in_range(const Poly& p, const Poly& size);  ///< 0 <= p < size
  /// Eliminates bounded variables; empty if some remain. `upper`: an upper bound, else a lower one.
  std::optional<Poly> bound(const Poly& p, bool upper, int depth = 0);
  Interval interval(const Poly& p);
  Interval interval_of_atom(const Atom& x);
  int32_t outermost_choice(const Poly& p) const;

  std::vector<Atom> atoms_;
  std::unordered_map<const VarNode*, int32_t> vars_;
  std::unordered_multimap<size_t, int32_t> composites_;
  std::unordered_multimap<int, int32_t> opaques_;
  std::vector<Poly> facts_;  ///< each >= 0
  /// Ranges of variables as they were before a fact about the variable alone narrowed them.
  struct Narrowed {
    size_t fact = 0;
    int32_t atom = 0;
    Poly low, high;
  };
  std::vector<Narrowed> narrowed_;
  Memo memo_;
  std::unordered_map<const ExprNode*, std::pair<Expr, Poly>> poly_memo_;
  int next_order_ = 0;
  int depth_ = 0;
  int proof_nesting_ = 0;
};

}  // namespace gantry
