// Polynomial arithmetic, substitution and evaluation of dimensions.
#include "host/graph/dim.h"

#include <algorithm>
#include <limits>
#include <map>

#include "host/graph/dim_at_least.h"
#include "host/graph/dim_broadcast.h"
#include "host/graph/dim_node.h"
#include "host/support/error.h"

namespace gantry {
namespace {

// More terms than any model's shapes have: a guard against expressions made to exhaust memory.
constexpr size_t kMaxTerms = 4096;
// Likewise, of the factors of one term.
constexpr size_t kMaxFactors = 256;

[[noreturn]] void overflow_error() {
  user_error("a dimension does not fit into 64 bits: use smaller shapes");
}

bool is_symbol_name(std::string_view name) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (name.empty() || !letter(name[0])) return false;
  return std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || digit(c) || c == '.'; });
}

std::string_view function_name(AtomKind kind) {
  switch (kind) {
    case AtomKind::kFloorDiv:
      return "floordiv";
    case AtomKind::kMod:
      return "mod";
    case AtomKind::kMax:
      return "max";
    case AtomKind::kMin:
      return "min";
    case AtomKind::kBroadcast:
      return "broadcast";
    case AtomKind::kSymbol:
      break;
  }
  internal_error("a symbol is no function of dimensions");
}

Dim apply(AtomKind kind, const Dim& a, const Dim& b) {
  switch (kind) {
    case AtomKind::kFloorDiv:
      return floordiv(a, b);
    case AtomKind::kMod:
      return mod(a, b);
    case AtomKind::kMax:
      return max(a, b);
    case AtomKind::kMin:
      return min(a, b);
    case AtomKind::kBroadcast:
      return broadcast(a, b);
    case AtomKind::kSymbol:
      break;
  }
  internal_error("a symbol is no function of dimensions");
}

void collect_symbols(const Dim& dim, std::map<std::string, DimRange>& ranges) {
  for (const DimTerm& term : DimNode::terms_of(dim)) {
    for (const AtomPtr& atom : term.factors) {
      if (atom->kind == AtomKind::kSymbol) {
        ranges.emplace(atom->text, atom->range);
      } else {
        collect_symbols(atom->a, ranges);
        collect_symbols(atom->b, ranges);
      }
    }
  }
}

int64_t evaluate_atom(const DimAtom& atom, const std::map<std::string, int64_t>& bindings) {
  if (atom.kind == AtomKind::kSymbol) {
    auto found = bindings.find(atom.text);
    if (found == bindings.end())
      user_error("the dimension '{}' has no value: give the shapes of all inputs", atom.text);
    return found->second;
  }
  const int64_t a = atom.a.evaluate(bindings), b = atom.b.evaluate(bindings);
  switch (atom.kind) {
    case AtomKind::kFloorDiv:
      return floordiv_int(a, b);
    case AtomKind::kMod:
      return mod_int(a, b);
    case AtomKind::kMax:
      return std::max(a, b);
    case AtomKind::kBroadcast:  // as visit_broadcast() has it
      return checked_mul(std::max(a, b), std::min<int64_t>(1, std::min(a, b)));
    default:
      return std::min(a, b);
  }
}

using PostfixVisitor = std::function<void(Dim::Opcode opcode, int64_t constant, const std::string& symbol)>;

/// Of operands that are all n or 1: max(a, b, …) * min(1, a, b, …), which is 0 where n is.
void visit_broadcast(const Dim& dim, const PostfixVisitor& visit) {
  static const std::string kNoName;
  const std::vector<Dim> operands = broadcast_operands(dim);
  for (size_t i = 0; i < operands.size(); ++i) {
    operands[i].visit_postfix(visit);
    if (i > 0) visit(Dim::Opcode::kMax, 0, kNoName);
  }
  visit(Dim::Opcode::kConstant, 1, kNoName);
  for (const Dim& operand : operands) {
    operand.visit_postfix(visit);
    visit(Dim::Opcode::kMin, 0, kNoName);
  }
  visit(Dim::Opcode::kMul, 0, kNoName);
}

}  // namespace

int64_t checked_add(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_add_overflow(a, b, &result)) overflow_error();
  return result;
}

int64_t checked_mul(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_mul_overflow(a, b, &result)) overflow_error();
  return result;
}

int64_t floordiv_int(int64_t a, int64_t b) {
  if (b == 0) user_error("a dimension is divided by zero");
  if (b == -1) return checked_mul(a, -1);
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

int64_t mod_int(int64_t a, int64_t b) {
  if (b == 0) user_error("a dimension is divided by zero");
  if (b == -1) return 0;
  const int64_t remainder = a % b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

int compare_factors(const Factors& a, const Factors& b) {
  if (a.size() != b.size()) return a.size() > b.size() ? -1 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    if (const int order = a[i]->text.compare(b[i]->text)) return order < 0 ? -1 : 1;
  }
  return 0;
}

std::optional<Factors> divide_factors(const Factors& all, const Factors& part) {
  Factors rest;
  size_t next = 0;
  for (const AtomPtr& atom : all) {
    if (next < part.size() && part[next]->text == atom->text) {
      ++next;
    } else {
      rest.push_back(atom);
    }
  }
  if (next != part.size()) return std::nullopt;
  return rest;
}

namespace {

/// What cancels all but the constant of an operand.
Terms opposite(const Dim& operand) {
  Terms terms;
  for (const DimTerm& term : DimNode::terms_of(operand)) {
    if (!term.factors.empty()) terms.push_back({checked_mul(term.coefficient, -1), term.factors});
  }
  return terms;
}

/// Whether each of the parts is one of the terms, or a part of it with the same sign.
bool contains(const Terms& terms, const Terms& parts) {
  return std::ranges::all_of(parts, [&](const DimTerm& part) {
    return std::ranges::any_of(terms, [&](const DimTerm& term) {
      const bool as_much =
          part.coefficient > 0 ? term.coefficient >= part.coefficient : term.coefficient <= part.coefficient;
      return as_much && compare_factors(term.factors, part.factors) == 0;
    });
  });
}

/// max(c - N, 0) + N is max(c, N), and so with min: what is added goes into the function where it leaves a
/// constant of an operand.
Dim with_sum_inside(const Dim& sum) {
  const Terms& terms = DimNode::terms_of(sum);
  for (const DimTerm& term : terms) {
    if (terms.size() == 1 || term.coefficient != 1 || term.factors.size() != 1) continue;
    const DimAtom& atom = *term.factors[0];
    if (atom.kind != AtomKind::kMax && atom.kind != AtomKind::kMin) continue;
    for (const Dim& operand : {atom.a, atom.b}) {
      Terms added = opposite(operand);
      if (added.empty() || !contains(terms, added)) continue;
      const Dim inside = DimNode::wrap(std::move(added)), a = atom.a + inside, b = atom.b + inside;
      return (sum - DimNode::wrap({term}) - inside) + (atom.kind == AtomKind::kMax ? max(a, b) : min(a, b));
    }
  }
  return sum;
}

}  // namespace

Dim DimNode::make(Terms terms) {
  std::sort(terms.begin(), terms.end(),
            [](const DimTerm& a, const DimTerm& b) { return compare_factors(a.factors, b.factors) < 0; });
  Terms merged;
  for (DimTerm& term : terms) {
    if (!merged.empty() && compare_factors(merged.back().factors, term.factors) == 0) {
      merged.back().coefficient = checked_add(merged.back().coefficient, term.coefficient);
    } else {
      merged.push_back(std::move(term));
    }
  }
  std::erase_if(merged, [](const DimTerm& term) { return term.coefficient == 0; });
  if (merged.size() > kMaxTerms)
    user_error("a dimension has more than {} terms: fix some input shapes", kMaxTerms);
  return with_sum_inside(wrap(std::move(merged)));
}

Dim DimNode::from_atom(AtomKind kind, const Dim& a, const Dim& b) {
  auto atom = std::make_shared<DimAtom>();
  atom->kind = kind;
  atom->text = fmt::format("{}({}, {})", function_name(kind), a.str(), b.str());
  atom->a = a;
  atom->b = b;
  return wrap({DimTerm{1, {std::move(atom)}}});
}

Dim::Dim(int64_t constant) {
  Terms terms;
  if (constant != 0) terms.push_back({constant, {}});
  node_ = std::make_shared<const DimNode>(DimNode{std::move(terms)});
}

Dim Dim::symbol(std::string_view name) {
  return symbol(name, DimRange());
}

Dim Dim::symbol(std::string_view name, DimRange range) {
  if (!is_symbol_name(name)) {
    user_error("'{}' cannot name a dimension: use letters, digits, '_' and '.', with no digit first", name);
  }
  internal_check(range.low >= 0 && range.low <= range.high, "the range of the dimension {} is empty", name);
  auto atom = std::make_shared<DimAtom>();
  atom->text = std::string(name);
  atom->range = range;
  return DimNode::wrap({DimTerm{1, {std::move(atom)}}});
}

bool Dim::is_constant() const {
  return node_->terms.empty() || (node_->terms.size() == 1 && node_->terms[0].factors.empty());
}

std::optional<int64_t> Dim::constant() const {
  if (!is_constant()) return std::nullopt;
  return node_->terms.empty() ? 0 : node_->terms[0].coefficient;
}

int64_t Dim::value() const {
  internal_check(is_constant(), "the dimension {} is not constant", str());
  return *constant();
}

bool Dim::is_symbol() const {
  if (node_->terms.size() != 1 || node_->terms[0].coefficient != 1) return false;
  const Factors& factors = node_->terms[0].factors;
  return factors.size() == 1 && factors[0]->kind == AtomKind::kSymbol;
}

std::vector<std::string> Dim::symbols() const {
  std::vector<std::string> names;
  for (auto& [name, range] : symbol_ranges()) names.push_back(name);
  return names;
}

std::map<std::string, DimRange> Dim::symbol_ranges() const {
  std::map<std::string, DimRange> ranges;
  collect_symbols(*this, ranges);
  return ranges;
}

Dim Dim::substitute(const std::map<std::string, Dim>& bindings) const {
  if (is_constant()) return *this;
  Dim sum = 0;
  for (const DimTerm& term : node_->terms) {
    Dim product = term.coefficient;
    for (const AtomPtr& atom : term.factors) {
      if (atom->kind == AtomKind::kSymbol) {
        auto found = bindings.find(atom->text);
        product = product * (found == bindings.end() ? DimNode::wrap({DimTerm{1, {atom}}}) : found->second);
      } else {
        product = product * apply(atom->kind, atom->a.substitute(bindings), atom->b.substitute(bindings));
      }
    }
    sum = sum + product;
  }
  return sum;
}

int64_t Dim::evaluate(const std::map<std::string, int64_t>& bindings) const {
  int64_t sum = 0;
  for (const DimTerm& term : node_->terms) {
    int64_t product = term.coefficient;
    for (const AtomPtr& atom : term.factors) product = checked_mul(product, evaluate_atom(*atom, bindings));
    sum = checked_add(sum, product);
  }
  return sum;
}

void Dim::visit_postfix(
    const std::function<void(Opcode, int64_t constant, const std::string& symbol)>& visit) const {
  static const std::string kNoName;
  if (node_->terms.empty()) visit(Opcode::kConstant, 0, kNoName);
  bool first_term = true;
  for (const DimTerm& term : node_->terms) {
    bool first_factor = true;
    if (term.coefficient != 1 || term.factors.empty()) {
      visit(Opcode::kConstant, term.coefficient, kNoName);
      first_factor = false;
    }
    for (const AtomPtr& atom : term.factors) {
      if (atom->kind == AtomKind::kSymbol) {
        visit(Opcode::kSymbol, 0, atom->text);
      } else if (atom->kind == AtomKind::kBroadcast) {
        visit_broadcast(DimNode::wrap({DimTerm{1, {atom}}}), visit);
      } else {
        atom->a.visit_postfix(visit);
        atom->b.visit_postfix(visit);
        const Opcode opcode = atom->kind == AtomKind::kFloorDiv ? Opcode::kFloorDiv
                              : atom->kind == AtomKind::kMod    ? Opcode::kMod
                              : atom->kind == AtomKind::kMax    ? Opcode::kMax
                                                                : Opcode::kMin;
        visit(opcode, 0, kNoName);
      }
      if (!first_factor) visit(Opcode::kMul, 0, kNoName);
      first_factor = false;
    }
    if (!first_term) visit(Opcode::kAdd, 0, kNoName);
    first_term = false;
  }
}

Dim operator+(const Dim& a, const Dim& b) {
  if (auto x = a.constant(), y = b.constant(); x && y) return checked_add(*x, *y);
  Terms terms = a.node_->terms;
  terms.insert(terms.end(), b.node_->terms.begin(), b.node_->terms.end());
  return DimNode::make(std::move(terms));
}

Dim operator-(const Dim& a, const Dim& b) {
  return a + b * Dim(-1);
}

Dim operator*(const Dim& a, const Dim& b) {
  if (auto x = a.constant(), y = b.constant(); x && y) return checked_mul(*x, *y);
  const Terms &left = a.node_->terms, &right = b.node_->terms;
  if (left.size() * right.size() > kMaxTerms * 4) {
    user_error("a dimension has more than {} terms: fix some input shapes", kMaxTerms);
  }
  Terms terms;
  for (const DimTerm& x : left) {
    for (const DimTerm& y : right) {
      DimTerm term{checked_mul(x.coefficient, y.coefficient), x.factors};
      term.factors.insert(term.factors.end(), y.factors.begin(), y.factors.end());
      if (term.factors.size() > kMaxFactors) {
        user_error("a dimension is a product of more than {} factors: fix some input shapes", kMaxFactors);
      }
      std::sort(term.factors.begin(), term.factors.end(),
                [](const AtomPtr& p, const AtomPtr& q) { return p->text < q->text; });
      terms.push_back(std::move(term));
    }
  }
  return DimNode::make(std::move(terms));
}

bool operator==(const Dim& a, const Dim& b) {
  if (a.node_ == b.node_) return true;
  const Terms &left = a.node_->terms, &right = b.node_->terms;
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](const DimTerm& x, const DimTerm& y) {
                      return x.coefficient == y.coefficient && compare_factors(x.factors, y.factors) == 0;
                    });
}

std::optional<int64_t> Dim::lower_bound() const {
  return bounds_of(*this).low;
}

Dim ceildiv(const Dim& a, const Dim& b) {
  return floordiv(a + b - 1, b);
}

bool provably_different(const Dim& a, const Dim& b) {
  if (are_far_apart(a, b))
    return least_difference(a, b).value_or(0) > 0 || least_difference(b, a).value_or(0) > 0;
  const auto difference = (a - b).constant();
  return difference && *difference != 0;
}

Dim element_count(const Shape& shape) {
  // A zero anywhere makes the product zero, whatever would overflow before it.
  if (std::any_of(shape.begin(), shape.end(), [](const Dim& d) { return d == Dim(0); })) return 0;
  Dim count = 1;
  for (const Dim& dim : shape) count = count * dim;
  return count;
}

std::string to_string(const Shape& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + shape[i].str();
  return text + ")";
}

std::optional<std::vector<int64_t>> constant_shape(const Shape& shape) {
  std::vector<int64_t> values;
  for (const Dim& dim : shape) {
    const auto value = dim.constant();
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

}  // namespace gantry
