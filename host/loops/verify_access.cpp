// A search for values of loop variables under which an access is outside of its buffer.
//
// An access is judged at one point of the loops around it at a time: there, bounds, lets, conditions and predicates
// have values, or are not known because they depend on what is loaded. Points are sought by moving one variable at a
// time towards the end of the buffer (or its beginning), within what the conditions let through. What is found is a
// proof; what is not found is none.
#include "host/loops/verify_access.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>

#include "host/tensor/fold.h"

namespace gantry {
namespace {

using Known = std::optional<int64_t>;

/// Values of symbols.
using Sizes = std::map<std::string, int64_t>;

/// Integers at one point of the loops; what depends on loaded values has none.
class PointValues {
 public:
  explicit PointValues(const Sizes& sizes) : sizes_(sizes) {}

  void clear() { values_.clear(), lets_.clear(); }
  void set(const VarNode* var, int64_t value) { values_[var] = value; }
  void define(const VarNode* var, const Expr& value) {
    if (var->type.lanes > 1) {
      lets_[var] = value;
    } else if (const Known known = of(value, 0)) {
      values_[var] = *known;
    }
  }
  int64_t at(const VarNode* var) const { return values_.at(var); }

  Known of(const Expr& e, int lane) {
    switch (e->kind) {
      case ExprKind::kIntImm:
        return e.as<IntImmNode>()->value;
      case ExprKind::kVar:
        return of_var(*e.as<VarNode>(), lane);
      case ExprKind::kBinary:
        return of_binary(*e.as<BinaryNode>(), lane);
      case ExprKind::kUnary:
        return of_unary(*e.as<UnaryNode>(), lane);
      case ExprKind::kSelect: {
        const auto* node = e.as<SelectNode>();
        return choice(of(node->condition, lane), node->if_true, node->if_false, lane);
      }
      case ExprKind::kCall: {
        const auto* node = e.as<CallNode>();
        if (node->fn != MathFn::kIfThenElse) return std::nullopt;
        return choice(of(node->args[0], 0), node->args[1], node->args[2], lane);
      }
      case ExprKind::kCast: {
        const Expr& from = e.as<CastNode>()->a;
        if (is_float(e.type().dtype) || is_float(from.type().dtype)) return std::nullopt;
        const Known value = of(from, lane);
        return value ? Known(wrap_integer(e.type().dtype, *value)) : std::nullopt;
      }
      case ExprKind::kRamp: {
        const Known base = of(e.as<RampNode>()->base, 0), stride = of(e.as<RampNode>()->stride, 0);
        return base && stride ? Known(*base + lane * *stride) : std::nullopt;
      }
      case ExprKind::kBroadcast:
        return of(e.as<BroadcastNode>()->value, 0);
      case ExprKind::kLet:
        define(e.as<LetNode>()->var.as<VarNode>(), e.as<LetNode>()->value);
        return of(e.as<LetNode>()->body, lane);
      default:
        return std::nullopt;
    }
  }

 private:
  Known of_var(const VarNode& var, int lane) {
    if (var.is_symbol) {
      const auto size = sizes_.find(var.name);
      return size == sizes_.end() ? std::nullopt : Known(size->second);
    }
    if (const auto let = lets_.find(&var); let != lets_.end()) return of(let->second, lane);
    const auto value = values_.find(&var);
    return value == values_.end() ? std::nullopt : Known(value->second);
  }

  Known of_binary(const BinaryNode& node, int lane) {
    const DType dtype = node.a.type().dtype;
    if (is_float(dtype)) return std::nullopt;
    const Known a = of(node.a, lane), b = of(node.b, lane);
    if (dtype == DType::kBool && node.op == BinaryOp::kAnd && (a == 0 || b == 0)) return 0;
    if (dtype == DType::kBool && node.op == BinaryOp::kOr && (a == 1 || b == 1)) return 1;
    return a && b ? fold_integers(node.op, dtype, *a, *b) : std::nullopt;
  }

  Known of_unary(const UnaryNode& node, int lane) {
    const DType dtype = node.type.dtype;
    const Known a = is_float(dtype) ? std::nullopt : of(node.a, lane);
    if (!a) return std::nullopt;
    if (node.op == UnaryOp::kNeg) return wrap_integer(dtype, static_cast<int64_t>(-static_cast<uint64_t>(*a)));
    return dtype == DType::kBool ? static_cast<int64_t>(*a == 0) : ~*a;
  }

  Known choice(Known condition, const Expr& if_true, const Expr& if_false, int lane) {
    if (!condition) return std::nullopt;
    return of(*condition != 0 ? if_true : if_false, lane);
  }

  const Sizes& sizes_;
  std::unordered_map<const VarNode*, int64_t> values_;
  std::unordered_map<const VarNode*, Expr> lets_;  ///< of vectors
};

std::set<const VarNode*> vars_of(const Expr& e) {
  std::set<const VarNode*> vars;
  if (!e) return vars;
  walk(e, [&](const Expr& part) {
    if (const auto* var = part.as<VarNode>()) vars.insert(var);
  });
  return vars;
}

/// Those that the variables depend on, through the loops and lets that bind them.
void add_dependencies(const LoopPath& path, std::set<const VarNode*>& vars) {
  for (auto binding = path.bindings().rbegin(); binding != path.bindings().rend(); ++binding) {
    if (!vars.contains(binding->var)) continue;
    for (const Expr& e : {binding->low, binding->extent, binding->value}) vars.merge(vars_of(e));
  }
}

class Search {
 public:
  Search(const LoopPath& path, const BufferNode& buffer, const Expr& index, const Expr& predicate,
         const Sizes& sizes)
      : path_(path), buffer_(buffer), index_(index), predicate_(predicate), sizes_(sizes), values_(sizes) {
    std::set<const VarNode*> vars = vars_of(index);
    for (const LoopPath::Condition& condition : path.conditions()) vars.merge(vars_of(condition.claim));
    add_dependencies(path, vars);
    for (const LoopPath::Binding& binding : path.bindings()) {
      if (binding.value) continue;
      if (vars.contains(binding.var) && constant_of(binding.extent) != 1) moves_.push_back(loops_);
      ++loops_;
    }
  }

  /// Some point was reached, and the index is known there.
  bool reached() const { return reached_; }

  std::optional<std::string> run() {
    for (const bool beyond : {true, false}) {
      for (const int64_t start : {int64_t{0}, kLast}) {
        if (ascend(Offsets(loops_, start), beyond)) return text_;
        if (gave_up_) return std::nullopt;
      }
    }
    return std::nullopt;
  }

 private:
  static constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
  /// Of each loop's variable from its low; beyond its end: the last.
  using Offsets = std::vector<int64_t>;
  /// How near a point is to what is sought.
  struct Score {
    int held = 0;  ///< loops that run, and conditions that hold
    int64_t excess = std::numeric_limits<int64_t>::min();  ///< elements outside, where it is reached
    auto operator<=>(const Score&) const = default;
  };

  /// From there, one variable after the other, twice. True where an access outside was found.
  bool ascend(Offsets at, bool beyond) {
    Score best = score(at, beyond);
    for (int pass = 0; pass < 2 && best.excess <= 0 && !gave_up_; ++pass) {
      const Score before = best;
      for (const size_t i : moves_)
        if (best.excess <= 0) improve(at, i, beyond, best);
      if (best == before) break;
    }
    if (best.excess <= 0) return false;
    (void)score(at, beyond);
    describe(best.excess, beyond);
    return true;
  }

  void improve(Offsets& at, size_t i, bool beyond, Score& best) {
    int64_t low = at[i] == kLast ? extents_[i] - 1 : at[i];
    for (const int64_t other : {int64_t{0}, kLast}) {
      if (other == at[i]) continue;
      Offsets there = at;
      there[i] = other;
      const Score found = score(there, beyond);
      if (found > best) {
        best = found, at = there;
        continue;
      }
      if (found.held >= best.held) continue;
      // Conditions fail there and hold here: the last place at which they do lies between.
      int64_t holds = low, fails = other == kLast ? std::max<int64_t>(extents_[i], 1) : -1;
      while (std::abs(fails - holds) > 1) {
        there[i] = holds + (fails - holds) / 2;
        const Score middle = score(there, beyond);
        (middle.held >= best.held ? holds : fails) = there[i];
        if (middle > best) best = middle, at = there;
      }
    }
  }

  Score score(const Offsets& at, bool beyond) {
    Score result;
    values_.clear();
    extents_.assign(loops_, 1);
    size_t loop = 0;
    for (const LoopPath::Binding& binding : path_.bindings()) {
      if (binding.value) {
        values_.define(binding.var, binding.value);
        continue;
      }
      const Known low = values_.of(binding.low, 0), extent = values_.of(binding.extent, 0);
      if (!low || !extent || *extent <= 0) return result;
      ++result.held;
      extents_[loop] = *extent;
      values_.set(binding.var, *low + std::min(at[loop], *extent - 1));
      ++loop;
    }
    bool all = true;
    for (const LoopPath::Condition& condition : path_.conditions()) {
      const Known claim = values_.of(condition.claim, 0);
      const bool holds = claim && (*claim != 0) == condition.holds;
      result.held += holds ? 1 : 0;
      all = all && holds;
    }
    if (all) result.excess = excess(beyond);
    return result;
  }

  /// Elements by which the index is outside at this point; none below 1.
  int64_t excess(bool beyond) {
    int64_t most = std::numeric_limits<int64_t>::min();
    const Known count = values_.of(buffer_.element_count, 0);
    const bool masked = static_cast<bool>(predicate_);
    bool known = false;
    for (int lane = 0; lane < index_.type().lanes; ++lane) {
      if (masked && values_.of(predicate_, lane) != 1) continue;
      const Known index = values_.of(index_, lane);
      known = known || (index && count);
      if (!index || !count) continue;
      const int64_t outside = beyond ? *index - *count + 1 : -*index;
      most = std::max(most, outside);
    }
    reached_ = reached_ || known;
    gave_up_ = gave_up_ || (!known && !masked);
    return most;
  }

  void describe(int64_t excess, bool beyond) {
    const int64_t count = *values_.of(buffer_.element_count, 0);
    const int64_t index = beyond ? count - 1 + excess : -excess;
    text_ = fmt::format("{}[{}], of {} elements", buffer_.name, index, count);
    std::string where;
    const auto add = [&](const std::string& name, int64_t value) {
      where += fmt::format("{} {} = {}", where.empty() ? ", at" : ",", name, value);
    };
    for (const auto& [name, value] : sizes_) add(name, value);
    for (const LoopPath::Binding& binding : path_.bindings())
      if (!binding.value) add(binding.var->name, values_.at(binding.var));
    text_ += where;
  }

  const LoopPath& path_;
  const BufferNode& buffer_;
  const Expr &index_, &predicate_;
  const Sizes& sizes_;
  PointValues values_;
  size_t loops_ = 0;
  std::vector<size_t> moves_;  ///< loops whose variables the index or a condition depends on
  std::vector<int64_t> extents_;  ///< of the loops, at the last point
  bool reached_ = false, gave_up_ = false;
  std::string text_;
};

void add_symbols(const Expr& e, std::set<std::string>& names) {
  if (!e) return;
  walk(e, [&](const Expr& part) {
    if (const auto* var = part.as<VarNode>(); var && var->is_symbol) names.insert(var->name);
  });
}

/// Those that the index depends on, through variables too.
std::set<std::string> symbols_of_index(const LoopPath& path, const Expr& index) {
  std::set<const VarNode*> vars = vars_of(index);
  add_dependencies(path, vars);
  std::set<std::string> names;
  for (const VarNode* var : vars)
    if (var->is_symbol) names.insert(var->name);
  return names;
}

/// At sizes of all kinds. Sizes may be bound to each other by what a kernel does not say: an access is wrong if it is
/// at every size at which it is made, and if it depends on the very symbols that its buffer's size does.
std::optional<std::string> find_at_sizes(const LoopPath& path, const BufferNode& buffer, const Expr& index,
                                         const Expr& predicate, const std::set<std::string>& symbols) {
  constexpr std::array<int64_t, 5> kSizes{100, 1000, 64, 33, 7};
  std::optional<std::string> found;
  int reached = 0;
  for (const int64_t step : {0, 1}) {
    for (const int64_t first : kSizes) {
      Sizes sizes;
      int64_t size = first;
      for (const std::string& symbol : symbols) sizes[symbol] = size, size += step * first;
      Search search(path, buffer, index, predicate, sizes);
      const auto outside = search.run();
      if (!search.reached()) continue;
      if (!outside) return std::nullopt;
      ++reached;
      if (!found) found = outside;
    }
    if (symbols.size() == 1) break;
  }
  return reached > 1 ? found : std::nullopt;
}

}  // namespace

std::optional<std::string> find_outside(const LoopPath& path, const BufferNode& buffer, const Expr& index,
                                        const Expr& predicate) {
  const Interval range = path.range_of(index);
  const auto count = constant_of(buffer.element_count);
  if (count && range.low && range.high && *range.low >= 0 && *range.high < *count) return std::nullopt;
  std::set<std::string> of_size, all;
  add_symbols(buffer.element_count, of_size);
  if (of_size != symbols_of_index(path, index)) return std::nullopt;
  for (const LoopPath::Binding& binding : path.bindings()) {
    const size_t known = all.size();
    add_symbols(binding.extent, all);
    // Sizes that are tried are none that make it make no turn, as it then does.
    if (count == 0 && all.size() > known) return std::nullopt;
    for (const Expr& e : {binding.low, binding.value}) add_symbols(e, all);
  }
  for (const LoopPath::Condition& condition : path.conditions()) add_symbols(condition.claim, all);
  all.insert(of_size.begin(), of_size.end());
  if (!all.empty()) return find_at_sizes(path, buffer, index, predicate, all);
  return Search(path, buffer, index, predicate, {}).run();
}

}  // namespace gantry
