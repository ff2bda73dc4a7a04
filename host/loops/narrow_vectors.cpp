// Vector stores of which only the first lanes are on.
//
//   a[ramp(i, 1, 16)] = b[…] if ramp(48, 1, 16) < x16(56)   =>   a[ramp(i, 1, 8)] = b[…]
//
// The last vector of a block that is no multiple of the lanes is such a store once its loop is written out. A
// vector of its own width stays in a register between its stores, which masked ones do not.
#include <algorithm>
#include <optional>

#include "host/loops/lower.h"
#include "host/support/divide.h"
#include "host/tensor/fold.h"
#include "host/tensor/simplifier.h"

namespace gantry {
namespace {

/// How many lanes `condition` lets through if these are the first, counted at compile time.
std::optional<int64_t> first_lanes(const Expr& condition) {
  const auto* node = condition.as<BinaryNode>();
  if (!node) return std::nullopt;
  if (node->op == BinaryOp::kAnd) {
    const auto a = first_lanes(node->a), b = first_lanes(node->b);
    return a && b ? std::optional(std::min(*a, *b)) : std::nullopt;
  }
  const auto* ramp = node->a.as<RampNode>();
  const auto* limit = node->b.as<BroadcastNode>();
  if (node->op != BinaryOp::kLt || !ramp || !limit) return std::nullopt;
  const auto base = constant_of(ramp->base), step = constant_of(ramp->stride),
             end = constant_of(limit->value);
  if (!base || !end || !step || *step < 1) return std::nullopt;
  return std::clamp<int64_t>(ceil_div(*end - *base, *step), 0, condition.type().lanes);
}

/// The first lanes of vectors.
class Narrower : public ExprMutator {
 public:
  Narrower(int64_t from, int64_t to, Simplifier& simplifier)
      : from_(from), to_(to), simplifier_(simplifier) {}
  /// Null where that is not known to be possible.
  Expr narrow(const Expr& e) {
    Expr result = mutate(e);
    return fits_ ? result : Expr();
  }

 protected:
  Expr mutate_load(const LoadNode* node, const Expr& self) override {
    const bool all_on = node->type.lanes == from_ && node->predicate.get() != nullptr &&
                        first_lanes(simplifier_.simplify(node->predicate)).value_or(0) >= to_;
    return all_on ? load(node->buffer, mutate(node->index)) : ExprMutator::mutate_load(node, self);
  }
  Expr mutate_var(const VarNode* node, const Expr& self) override {
    fits_ = fits_ && node->type.lanes == 1;
    return self;
  }
  Expr mutate_default(const Expr& self) override {
    if (self->type.lanes != from_) {
      fits_ = fits_ && self->type.lanes == 1;
      return self;
    }
    const int lanes = static_cast<int>(to_);
    if (const auto* ramp = self.as<RampNode>())
      return std::make_shared<RampNode>(ramp->base, ramp->stride, lanes);
    if (const auto* same = self.as<BroadcastNode>())
      return std::make_shared<BroadcastNode>(same->value, lanes);
    return ExprMutator::mutate_default(self);
  }

 private:
  int64_t from_, to_;
  Simplifier& simplifier_;
  bool fits_ = true;
};

class VectorNarrower : public StmtMutator {
 protected:
  Stmt mutate_store(const StoreNode* node, const Stmt& self) override {
    if (!node->predicate) return self;
    const int64_t lanes = node->predicate.type().lanes,
                  first = first_lanes(simplifier_.simplify(node->predicate)).value_or(lanes);
    const bool power_of_two = (first & (first - 1)) == 0;
    if (first == lanes || first < 2 || !power_of_two) return self;
    Narrower narrower(lanes, first, simplifier_);
    Expr index = narrower.narrow(node->index), value = narrower.narrow(node->value);
    const bool narrowed = index.get() != nullptr && value.get() != nullptr;
    return narrowed ? store(node->buffer, index, value) : self;
  }

 private:
  Simplifier simplifier_;
};

}  // namespace

Stmt narrow_vectors(const Stmt& s) {
  return VectorNarrower().mutate_stmt(s);
}

}  // namespace gantry
