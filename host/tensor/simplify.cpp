// Expressions simplified by what is known of their variables; their polynomials are in simplify_poly.cpp.
#include "host/tensor/simplify.h"

#include <algorithm>
#include <numeric>

#include "host/support/error.h"
#include "host/tensor/fold.h"
#include "host/tensor/simplifier.h"

namespace gantry {
namespace {

bool is_index(const Expr& e) {
  return e->type == ExprType{DType::kI64, 1};
}

bool is_linear_comparison(const BinaryNode* node) {
  return node && is_comparison(node->op) && is_index(node->a);
}

}  // namespace

void Simplifier::bind(const Expr& var, const Expr& low, const Expr& extent) {
  int32_t id = intern_var(var);
  Poly low_poly, high_poly;
  bool bounded = true;
  try {
    low_poly = to_poly(low);
    high_poly = add(add(low_poly, to_poly(extent)), Poly(-1));
  } catch (const PolyOverflow&) {
    bounded = false;
  }
  Atom& a = atoms_[static_cast<size_t>(id)];
  a.low = low_poly;
  a.high = high_poly;
  a.bounded = bounded;
  poly_memo_.clear();
  memo_.clear();
}

bool Simplifier::is_bound(const VarNode* var) const {
  auto it = vars_.find(var);
  return it != vars_.end() && atom(it->second).bounded;
}

void Simplifier::assume(const Expr& condition) {
  const auto* node = condition.as<BinaryNode>();
  if (!node) return;
  if (node->op == BinaryOp::kAnd && node->type.dtype == DType::kBool) {
    assume(node->a);
    assume(node->b);
    return;
  }
  if (!is_linear_comparison(node)) return;
  try {
    Poly a = to_poly(node->a), b = to_poly(node->b);
    auto fact = [&](const Poly& high, const Poly& low, int64_t gap) {
      facts_.push_back(add(add(high, low, -1), Poly(-gap)));
      narrow(facts_.back());
    };
    if (node->op == BinaryOp::kLt) fact(b, a, 1);
    if (node->op == BinaryOp::kLe || node->op == BinaryOp::kEq) fact(b, a, 0);
    if (node->op == BinaryOp::kGt) fact(a, b, 1);
    if (node->op == BinaryOp::kGe || node->op == BinaryOp::kEq) fact(a, b, 0);
  } catch (const PolyOverflow&) {
  }
  poly_memo_.clear();
  memo_.clear();
}

/// A fact c - x >= 0 or x - c >= 0 with constant c is a bound of x, until it is forgotten.
void Simplifier::narrow(const Poly& fact) {
  Poly rest = add(fact, Poly(-fact.constant_term()));
  bool upper = rest.terms.size() == 1 && rest.terms[0].coefficient == -1;
  int32_t id = upper ? scale(rest, -1).single_atom() : rest.single_atom();
  if (id < 0 || atom(id).kind != AtomKind::kVar || !atom(id).bounded) return;
  Atom& x = atoms_[static_cast<size_t>(id)];
  Poly& end = upper ? x.high : x.low;
  int64_t value = upper ? fact.constant_term() : -fact.constant_term();
  if (!end.is_constant() || (upper ? end.constant_term() <= value : end.constant_term() >= value)) return;
  narrowed_.push_back({facts_.size() - 1, id, x.low, x.high});
  end = Poly(value);
}

void Simplifier::forget(size_t facts) {
  facts_.resize(facts);
  while (!narrowed_.empty() && narrowed_.back().fact >= facts) {
    Atom& x = atoms_[static_cast<size_t>(narrowed_.back().atom)];
    x.low = narrowed_.back().low;
    x.high = narrowed_.back().high;
    narrowed_.pop_back();
  }
  poly_memo_.clear();
  memo_.clear();
}

Expr Simplifier::visit_comparison(const BinaryNode* node) {
  Poly a = to_poly(node->a), b = to_poly(node->b);
  bool swap = node->op == BinaryOp::kGt || node->op == BinaryOp::kGe;
  if (swap) std::swap(a, b);
  Poly difference = add(b, a, -1);
  Expr yes = int_imm(DType::kBool, 1), no = int_imm(DType::kBool, 0);
  if (node->op == BinaryOp::kEq || node->op == BinaryOp::kNe) {
    bool equal = node->op == BinaryOp::kEq;
    if (difference.is_constant()) return (difference.constant_term() == 0) == equal ? yes : no;
    Poly above = add(difference, Poly(-1)), below = add(scale(difference, -1), Poly(-1));
    if (nonnegative(above) || nonnegative(below)) return equal ? no : yes;
    return binary(node->op, build(a), build(b));
  }
  bool strict = node->op == BinaryOp::kLt || node->op == BinaryOp::kGt;
  Poly gap = strict ? add(difference, Poly(-1)) : difference;  // the claim: gap >= 0
  if (nonnegative(gap)) return yes;
  if (nonnegative(add(scale(gap, -1), Poly(-1)))) return no;
  if (has_opaque(gap)) return strict ? lt(build(a), build(b)) : le(build(a), build(b));
  return positive_form(gap);
}

/// gap >= 0 as a comparison of sums with positive coefficients.
Expr Simplifier::positive_form(const Poly& gap) {
  for (const Poly::Term& t : gap.terms) {
    if (t.monomial.degree != 1 || std::abs(t.coefficient) != 1) continue;
    const Atom quotient = atom(t.monomial.atoms[0]);
    bool divides = quotient.kind == AtomKind::kFloorDiv && quotient.b.is_constant();
    if (!divides || quotient.b.constant_term() <= 0) continue;
    Poly rest = gap;
    rest.add_term(t.monomial, -t.coefficient);
    if (!rest.is_constant()) continue;
    int64_t c = quotient.b.constant_term(), r = rest.constant_term();
    // floordiv(x, c) >= -r is x >= -r c; floordiv(x, c) <= r is x < (r + 1) c.
    if (t.coefficient > 0) return positive_form(add(quotient.a, Poly(exact_mul(r, c))));
    return positive_form(add(Poly(exact_add(exact_mul(exact_add(r, 1), c), -1)), quotient.a, -1));
  }
  int64_t divisor = 0;
  for (const Poly::Term& t : gap.terms) {
    if (t.monomial.degree > 0) divisor = std::gcd(divisor, t.coefficient);
  }
  Poly left, right;
  for (const Poly::Term& t : gap.terms) {
    if (t.monomial.degree == 0) continue;
    if (t.coefficient < 0)
      left.add_term(t.monomial, -t.coefficient / divisor);
    else
      right.add_term(t.monomial, t.coefficient / divisor);
  }
  right.add_term(Monomial(), exact_add(floor_divide(gap.constant_term(), divisor), 1));
  return lt(build(left), build(right));
}

/// `e` simplified where the condition holds.
Expr Simplifier::visit_under(const Expr& condition, const Expr& e) {
  size_t known = facts_.size();
  Memo memo = std::move(memo_);
  auto poly_memo = std::move(poly_memo_);
  memo_.clear();
  poly_memo_.clear();
  assume(condition);
  Expr result = visit(e);
  forget(known);
  memo_ = std::move(memo);
  poly_memo_ = std::move(poly_memo);
  return result;
}

Expr Simplifier::visit_conditional(const Expr& e, const Expr& condition, const Expr& if_true,
                                   const Expr& if_false, bool lazy) {
  Expr c = visit(condition);
  if (auto truth = constant_of(c)) return visit(*truth ? if_true : if_false);
  // Select evaluates both branches, so that a branch's loads must stay as safe as they were.
  Expr t = lazy ? visit_under(c, if_true) : visit(if_true);
  Expr f = visit(if_false);
  if (c.same_as(condition) && t.same_as(if_true) && f.same_as(if_false)) return e;
  return lazy ? if_then_else(c, t, f) : select(c, t, f);
}

Expr Simplifier::visit_children(const Expr& e) {
  switch (e->kind) {
    case ExprKind::kBinary: {
      const auto* n = e.as<BinaryNode>();
      Expr a = visit(n->a), b = visit(n->b);
      return a.same_as(n->a) && b.same_as(n->b) ? e : binary(n->op, a, b);
    }
    case ExprKind::kUnary: {
      const auto* n = e.as<UnaryNode>();
      Expr a = visit(n->a);
      return a.same_as(n->a) ? e : n->op == UnaryOp::kNeg ? -a : logical_not(a);
    }
    case ExprKind::kCall: {
      const auto* n = e.as<CallNode>();
      if (n->fn == MathFn::kIfThenElse) return visit_conditional(e, n->args[0], n->args[1], n->args[2], true);
      std::vector<Expr> args;
      bool same = true;
      for (const Expr& arg : n->args) {
        args.push_back(visit(arg));
        same &= args.back().same_as(arg);
      }
      return same ? e : call(n->fn, std::move(args));
    }
    case ExprKind::kSelect: {
      const auto* n = e.as<SelectNode>();
      return visit_conditional(e, n->condition, n->if_true, n->if_false, false);
    }
    case ExprKind::kCast: {
      const auto* n = e.as<CastNode>();
      Expr a = visit(n->a);
      return a.same_as(n->a) ? e : cast(n->type.dtype, a);
    }
    case ExprKind::kRead: {
      const auto* n = e.as<ReadNode>();
      std::vector<Expr> indices;
      for (const Expr& index : n->indices) indices.push_back(visit(index));
      return std::make_shared<ReadNode>(n->op, n->result, n->type.dtype, std::move(indices));
    }
    case ExprKind::kLoad: {
      const auto* n = e.as<LoadNode>();
      Expr index = visit(n->index), predicate = n->predicate ? visit(n->predicate) : Expr();
      if (index.same_as(n->index) && predicate.same_as(n->predicate)) return e;
      return std::make_shared<LoadNode>(n->buffer, ExprType{n->type.dtype, index.type().lanes}, index,
                                        predicate);
    }
    case ExprKind::kReduce: {
      const auto* n = e.as<ReduceNode>();
      return std::make_shared<ReduceNode>(n->reduce, visit(n->value), n->axes,
                                          n->condition ? visit(n->condition) : Expr());
    }
    case ExprKind::kRamp: {
      const auto* n = e.as<RampNode>();
      Expr base = visit(n->base), stride = visit(n->stride);
      if (base.same_as(n->base) && stride.same_as(n->stride)) return e;
      return std::make_shared<RampNode>(base, stride, n->type.lanes);
    }
    case ExprKind::kBroadcast: {
      const auto* n = e.as<BroadcastNode>();
      Expr value = visit(n->value);
      return value.same_as(n->value) ? e : Expr(std::make_shared<BroadcastNode>(value, n->type.lanes));
    }
    case ExprKind::kLet: {
      const auto* n = e.as<LetNode>();
      Expr value = visit(n->value), body = visit(n->body);
      if (value.same_as(n->value) && body.same_as(n->body)) return e;
      return std::make_shared<LetNode>(n->var, value, body);
    }
    default:
      return e;
  }
}

Expr Simplifier::visit(const Expr& e) {
  if (e->kind == ExprKind::kIntImm || e->kind == ExprKind::kFloatImm || e->kind == ExprKind::kVar) return e;
  auto it = memo_.find(e.get());
  if (it != memo_.end()) return it->second.second;
  Expr result;
  try {
    const auto* node = e.as<BinaryNode>();
    if (is_index(e)) {
      result = build(to_poly(e));
      if (structurally_equal(result, e)) result = e;
    } else if (is_linear_comparison(node)) {
      result = visit_comparison(node);
      if (structurally_equal(result, e)) result = e;
    } else {
      result = visit_children(e);
    }
  } catch (const PolyOverflow&) {
    result = e;
  }
  memo_.emplace(e.get(), std::make_pair(e, result));
  return result;
}

Expr Simplifier::simplify(const Expr& e) {
  if (!e) return e;
  Expr result = visit(e);
  memo_.clear();
  poly_memo_.clear();
  return result;
}

bool Simplifier::prove(const Expr& condition) {
  return constant_of(simplify(condition)) == 1;
}

Interval Simplifier::bounds(const Expr& e) {
  try {
    Poly p = to_poly(e);
    Interval direct = interval(p);
    // Eliminating variables symbolically keeps what their bounds have in common.
    auto low = bound(p, false), high = bound(p, true);
    if (low) {
      Interval i = interval(*low);
      if (i.low && (!direct.low || *i.low > *direct.low)) direct.low = i.low;
    }
    if (high) {
      Interval i = interval(*high);
      if (i.high && (!direct.high || *i.high < *direct.high)) direct.high = i.high;
    }
    poly_memo_.clear();
    return direct;
  } catch (const PolyOverflow&) {
    return {};
  }
}

std::optional<Simplifier::Range> Simplifier::range_over(const Expr& e,
                                                        const std::function<bool(const VarNode*)>& inner) {
  auto varies = [&](const Expr& x) {
    bool found = false;
    walk(x, [&](const Expr& node) {
      if (const auto* var = node.as<VarNode>()) found |= inner(var);
    });
    return found;
  };
  try {
    Poly p = to_poly(e), fixed, varying;
    for (const Poly::Term& t : p.terms) {
      bool inside = t.monomial.degree > 0 && varies(build_term(t.monomial, 1));
      (inside ? varying : fixed).add_term(t.monomial, t.coefficient);
    }
    Interval span = interval(varying);
    if (int32_t id = varying.single_atom();
        id >= 0 && atom(id).kind == AtomKind::kFloorDiv && atom(id).b.is_constant()) {
      // floordiv(base + t, c) with 0 <= t < extent takes at most (extent - 1 + c - 1) / c + 1 values.
      const Atom x = atom(id);
      int64_t c = x.b.constant_term();
      if (auto numerator = c > 0 ? range_over(x.expr.as<BinaryNode>()->a, inner) : std::nullopt) {
        Poly low = add(fixed, floordiv_poly(to_poly(numerator->low), Poly(c)));
        int64_t extent = floor_divide(numerator->extent - 1 + c - 1, c) + 1;
        if (!span.low || !span.high || extent <= *span.high - *span.low + 1) return Range{build(low), extent};
      }
    }
    if (!span.low || !span.high) return std::nullopt;
    return Range{build(add(fixed, Poly(*span.low))), *span.high - *span.low + 1};
  } catch (const PolyOverflow&) {
    return std::nullopt;
  }
}

namespace {

Simplifier with_ranges(const RangeMap& ranges) {
  Simplifier simplifier;
  // A range may mention other variables of the map: those first.
  std::vector<const VarNode*> done;
  std::function<void(const VarNode*)> declare = [&](const VarNode* var) {
    if (std::find(done.begin(), done.end(), var) != done.end()) return;
    done.push_back(var);
    const VarRange& range = ranges.at(var);
    for (const Expr& e : {range.low, range.extent}) {
      walk(e, [&](const Expr& x) {
        const auto* other = x.as<VarNode>();
        if (other && ranges.count(other)) declare(other);
      });
    }
    simplifier.bind(Expr(var->shared_from_this()), range.low, range.extent);
  };
  for (const auto& [var, range] : ranges) declare(var);
  return simplifier;
}

}  // namespace

Expr simplify(const Expr& e, const RangeMap& ranges) {
  return with_ranges(ranges).simplify(e);
}
bool can_prove(const Expr& condition, const RangeMap& ranges) {
  return with_ranges(ranges).prove(condition);
}
Interval bounds_of(const Expr& e, const RangeMap& ranges) {
  return with_ranges(ranges).bounds(e);
}

}  // namespace gantry
