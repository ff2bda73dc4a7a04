// Expressions as polynomials over atoms, and these as expressions.
#include <algorithm>

#include "host/tensor/fold.h"
#include "host/tensor/simplifier.h"

namespace gantry {

int32_t Simplifier::intern_var(const Expr& var) {
  const auto* node = var.as<VarNode>();
  auto [it, inserted] = vars_.emplace(node, static_cast<int32_t>(atoms_.size()));
  if (inserted) {
    Atom a;
    a.kind = AtomKind::kVar;
    a.expr = var;
    a.order = node->is_symbol ? -1 : next_order_++;
    atoms_.push_back(std::move(a));
  }
  return it->second;
}

int32_t Simplifier::intern_opaque(const Expr& e) {
  int key = static_cast<int>(e->kind);
  auto [first, last] = opaques_.equal_range(key);
  for (auto it = first; it != last; ++it) {
    if (structurally_equal(atom(it->second).expr, e)) return it->second;
  }
  Atom a;
  a.expr = e;
  a.order = next_order_++;  // may depend on any variable
  auto id = static_cast<int32_t>(atoms_.size());
  atoms_.push_back(std::move(a));
  opaques_.emplace(key, id);
  return id;
}

Poly Simplifier::composite(AtomKind kind, const Poly& a, const Poly& b) {
  size_t key = hash_of(a) * 31 + hash_of(b) * 7 + static_cast<size_t>(kind);
  auto [first, last] = composites_.equal_range(key);
  for (auto it = first; it != last; ++it) {
    const Atom& known = atom(it->second);
    if (known.kind == kind && known.a == a && known.b == b) return Poly::atom(it->second);
  }
  Atom made;
  made.kind = kind;
  made.a = a;
  made.b = b;
  made.order = -1;
  for (const Poly* p : {&a, &b}) {
    for (const Poly::Term& t : p->terms) {
      for (int i = 0; i < t.monomial.degree; ++i) {
        const Atom& inner = atom(t.monomial.atoms[static_cast<size_t>(i)]);
        made.order = std::max(made.order, inner.order);
        made.height = std::max(made.height, inner.height + 1);
      }
    }
  }
  Expr x = build(a), y = build(b);
  made.expr = kind == AtomKind::kFloorDiv ? floordiv(x, y)
              : kind == AtomKind::kMod    ? mod(x, y)
              : kind == AtomKind::kMin    ? min(x, y)
                                          : max(x, y);
  auto id = static_cast<int32_t>(atoms_.size());
  atoms_.push_back(std::move(made));
  composites_.emplace(key, id);
  return Poly::atom(id);
}

Expr Simplifier::build_term(const Monomial& monomial, int64_t coefficient) {
  Expr product;
  for (int i = 0; i < monomial.degree; ++i) {
    const Expr& factor = atom(monomial.atoms[static_cast<size_t>(i)]).expr;
    product = product ? product * factor : factor;
  }
  if (!product) return Expr(coefficient);
  return coefficient == 1 ? product : product * Expr(coefficient);
}

/// Terms in order of their atoms, positive ones first, the constant last.
Expr Simplifier::build(const Poly& p) {
  Expr sum;
  for (const Poly::Term& t : p.terms) {
    if (t.coefficient <= 0 || t.monomial.degree == 0) continue;
    Expr term = build_term(t.monomial, t.coefficient);
    sum = sum ? sum + term : term;
  }
  int64_t constant = p.constant_term();
  if (!sum && constant > 0) {
    sum = Expr(constant);
    constant = 0;
  }
  for (const Poly::Term& t : p.terms) {
    if (t.coefficient >= 0 || t.monomial.degree == 0) continue;
    if (sum) {
      sum = sum - build_term(t.monomial, -t.coefficient);
    } else {
      sum = build_term(t.monomial, t.coefficient);
    }
  }
  if (!sum) return Expr(constant);
  return constant >= 0 ? sum + Expr(constant) : sum - Expr(-constant);
}

/// Whether one of the atoms that it is made of is so.
template <typename Predicate>
bool Simplifier::has_atom(const Poly& p, const Predicate& is_so) const {
  for (const Poly::Term& t : p.terms) {
    for (int i = 0; i < t.monomial.degree; ++i) {
      const Atom& x = atom(t.monomial.atoms[static_cast<size_t>(i)]);
      if (is_so(x) || has_atom(x.a, is_so) || has_atom(x.b, is_so)) return true;
    }
  }
  return false;
}

bool Simplifier::has_opaque(const Poly& p) const {
  return has_atom(p, [](const Atom& x) { return x.kind == AtomKind::kOpaque; });
}

/// Data may be negative, and so may what a variable stands for of which nothing is known.
bool Simplifier::is_size(const Poly& b) {
  if (b.is_constant()) return b.constant_term() > 0;
  const auto may_be_data = [](const Atom& x) {
    return x.kind == AtomKind::kOpaque || (x.kind == AtomKind::kVar && !x.bounded && x.order >= 0);
  };
  if (has_atom(b, may_be_data)) return false;
  const Interval known = interval(b);
  return (known.low && *known.low >= 0) || !nonnegative(add(scale(b, -1), Poly(-1)));
}

Poly Simplifier::to_poly(const Expr& e) {
  if (auto value = constant_of(e)) return Poly(*value);
  if (e.as<VarNode>()) return Poly::atom(intern_var(e));
  auto it = poly_memo_.find(e.get());
  if (it != poly_memo_.end()) return it->second.second;
  Poly p;
  if (const auto* node = e.as<BinaryNode>()) {
    p = binary_poly(node, e);
  } else if (const auto* unary = e.as<UnaryNode>(); unary && unary->op == UnaryOp::kNeg) {
    p = scale(to_poly(unary->a), -1);
  } else {
    Expr visited = visit_children(e);
    if (!visited.same_as(e) && (constant_of(visited) || visited.as<VarNode>() || visited.as<BinaryNode>())) {
      p = to_poly(visited);
    } else {
      p = Poly::atom(intern_opaque(visited));
    }
  }
  poly_memo_.emplace(e.get(), std::make_pair(e, p));
  return p;
}

/// Of a remainder by what is no size nothing is known, nor of such a quotient.
Poly Simplifier::floored_poly(BinaryOp op, const Poly& a, const Poly& b) {
  if (is_size(b)) return op == BinaryOp::kFloorDiv ? floordiv_poly(a, b) : mod_poly(a, b);
  const Expr whole = binary(op, build(a), build(b));
  const auto value = constant_of(whole);
  return value ? Poly(*value) : Poly::atom(intern_opaque(whole));
}

Poly Simplifier::binary_poly(const BinaryNode* node, const Expr& e) {
  switch (node->op) {
    case BinaryOp::kAdd:
      return recombine(add(to_poly(node->a), to_poly(node->b)));
    case BinaryOp::kSub:
      return recombine(add(to_poly(node->a), to_poly(node->b), -1));
    case BinaryOp::kMul:
      return multiply(to_poly(node->a), to_poly(node->b));
    case BinaryOp::kFloorDiv:
    case BinaryOp::kMod:
      return floored_poly(node->op, to_poly(node->a), to_poly(node->b));
    case BinaryOp::kMin:
      return min_max_poly(true, to_poly(node->a), to_poly(node->b));
    case BinaryOp::kMax:
      return min_max_poly(false, to_poly(node->a), to_poly(node->b));
    case BinaryOp::kDiv:
    case BinaryOp::kRem: {
      Poly a = to_poly(node->a), b = to_poly(node->b);
      if (b.is_constant() && b.constant_term() > 0 && nonnegative(a)) {
        return node->op == BinaryOp::kDiv ? floordiv_poly(a, b) : mod_poly(a, b);
      }
      return Poly::atom(intern_opaque(binary(node->op, build(a), build(b))));
    }
    default:
      return Poly::atom(intern_opaque(visit_children(e)));
  }
}

}  // namespace gantry
