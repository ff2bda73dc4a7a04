#include <string>
#include <unordered_map>

#include "host/loops/index_signs.h"
#include "host/loops/index_terms.h"
#include "host/loops/lower.h"
#include "host/loops/stored_buffers.h"
#include "host/support/error.h"
#include "host/tensor/fold.h"
#include "host/tensor/simplifier.h"

namespace gantry {
namespace {

struct CannotVectorize {};

/// Rewrites the body of one vectorized loop for all its lanes at once.
class Widener {
 public:
  /// `simplifier`, `signs`: what is known of variables around the loop.
  Widener(const ForNode& loop, int lanes, Simplifier& simplifier, IndexSigns& signs)
      : var_(loop.var), low_(loop.low), lanes_(lanes), simplifier_(simplifier), signs_(signs) {
    widened_[loop.var.as<VarNode>()] = std::make_shared<RampNode>(loop.low, Expr(1), lanes);
  }

  Stmt widen(const Stmt& s) {
    if (!s) return s;
    switch (s->kind) {
      case StmtKind::kStore:
        return widen_store(s.as<StoreNode>());
      case StmtKind::kFor:
        return widen_for(s.as<ForNode>());
      case StmtKind::kIf:
        return widen_if(s.as<IfNode>());
      case StmtKind::kBlock: {
        std::vector<Stmt> statements;
        for (const Stmt& inner : s.as<BlockNode>()->statements) statements.push_back(widen(inner));
        return block(std::move(statements));
      }
      case StmtKind::kAllocate:
        throw CannotVectorize();
      case StmtKind::kLet:
        return widen_let(s.as<LetStmtNode>());
      case StmtKind::kLaunch:
      case StmtKind::kBarrier:
      case StmtKind::kShuffle:
      case StmtKind::kMma:
      case StmtKind::kTile:
      case StmtKind::kPrefetch:
      case StmtKind::kTranspose:
      case StmtKind::kOnce:
        throw CannotVectorize();
    }
    throw CannotVectorize();
  }

 private:
  Expr vector_of(const Expr& e) const {
    return e.type().lanes == lanes_ ? e : Expr(std::make_shared<BroadcastNode>(e, lanes_));
  }

  /// Runs `body` with the mask narrowed by a condition that differs between lanes.
  template <typename Body>
  auto under(const Expr& condition, const Expr& scalar_condition, Body body) {
    Expr mask = mask_;
    bool first_lane = first_lane_active_;
    auto memo = std::move(memo_);
    memo_.clear();
    mask_ = mask ? mask && condition : condition;
    first_lane_active_ =
        first_lane && simplifier_.prove(substitute(scalar_condition, {{var_.as<VarNode>(), low_}}));
    auto result = body();
    mask_ = mask;
    first_lane_active_ = first_lane;
    memo_ = std::move(memo);
    return result;
  }

  Stmt widen_store(const StoreNode* node) {
    Expr index = widen(node->index), value = widen(node->value);
    if (index.type().lanes == 1) throw CannotVectorize();
    Expr predicate = mask_;
    if (node->predicate) {
      Expr own = vector_of(widen(node->predicate));
      predicate = predicate ? predicate && own : own;
    }
    return store(node->buffer, index, vector_of(value), predicate);
  }

  Stmt widen_for(const ForNode* node) {
    Expr low = widen(node->low), extent = widen(node->extent);
    if (low.type().lanes > 1 || extent.type().lanes > 1) throw CannotVectorize();
    // A copy of the loop may have had other bounds.
    simplifier_.bind(node->var, node->low, node->extent);
    signs_.set_at_least(node->var.as<VarNode>(), node->low);
    return for_loop_like(*node, node->var, low, extent, widen(node->body));
  }

  Stmt widen_if(const IfNode* node) {
    Expr condition = widen(node->condition);
    if (condition.type().lanes == 1) {
      Stmt then_case = widen(node->then_case), else_case = widen(node->else_case);
      return if_stmt(condition, then_case, else_case);
    }
    if (!is_asked_after_a_change(*node)) return widen_cases(*node, condition);
    const std::string name = "mask." + std::to_string(masks_++);
    const Expr mask = std::make_shared<VarNode>(name, condition.type(), false);
    return let(mask, condition, widen_cases(*node, mask));
  }

  /// Every store asks for its condition anew: whether one does that comes after another that changes what the
  /// condition reads.
  static bool is_asked_after_a_change(const IfNode& node) {
    const bool once = node.then_case.as<StoreNode>() != nullptr && !node.else_case;
    return !once &&
           (may_change(node.then_case, node.condition) || may_change(node.else_case, node.condition));
  }

  /// Under a condition that differs between lanes.
  Stmt widen_cases(const IfNode& node, const Expr& condition) {
    Stmt then_case = under(condition, node.condition, [&] { return widen(node.then_case); });
    Stmt else_case;
    if (node.else_case) {
      else_case =
          under(logical_not(condition), logical_not(node.condition), [&] { return widen(node.else_case); });
    }
    return block({then_case, else_case});
  }

  Stmt widen_let(const LetStmtNode* node) {
    Expr value = widen(node->value);
    const auto* var = node->var.as<VarNode>();
    if (value.type().lanes == 1) {
      // In a copy of the statement before it may have been a vector.
      if (widened_.erase(var) > 0) memo_.clear();
      signs_.set_at_least(var, value);
      return let(node->var, value, widen(node->body));
    }
    Expr wide = std::make_shared<VarNode>(var->name, value.type(), false);
    widened_[var] = wide;
    memo_.clear();
    return let(wide, value, widen(node->body));
  }

  Expr widen(const Expr& e) {
    if (!e || e.as<IntImmNode>() || e.as<FloatImmNode>()) return e;
    if (const auto* var = e.as<VarNode>()) {
      auto it = widened_.find(var);
      return it == widened_.end() ? e : it->second;
    }
    auto it = memo_.find(e.get());
    if (it != memo_.end()) return it->second.second;
    Expr result = widen_node(e);
    memo_.emplace(e.get(), std::make_pair(e, result));
    return result;
  }

  Expr widen_node(const Expr& e) {
    switch (e->kind) {
      case ExprKind::kBinary:
        return widen_binary(e.as<BinaryNode>());
      case ExprKind::kUnary: {
        const auto* node = e.as<UnaryNode>();
        Expr a = widen(node->a);
        return node->op == UnaryOp::kNeg ? -a : logical_not(a);
      }
      case ExprKind::kCall:
        return widen_call(e.as<CallNode>());
      case ExprKind::kSelect: {
        const auto* node = e.as<SelectNode>();
        return select(widen(node->condition), widen(node->if_true), widen(node->if_false));
      }
      case ExprKind::kCast:
        return cast(e->type.dtype, widen(e.as<CastNode>()->a));
      case ExprKind::kLoad:
        return widen_load(e.as<LoadNode>());
      case ExprKind::kLet: {
        const auto* node = e.as<LetNode>();
        Expr value = widen(node->value), var = node->var;
        if (value.type().lanes > 1) {
          var = std::make_shared<VarNode>(var.as<VarNode>()->name, value.type(), false);
          widened_[node->var.as<VarNode>()] = var;
        }
        return std::make_shared<LetNode>(var, value, widen(node->body));
      }
      default:
        throw CannotVectorize();  // vectors of another loop
    }
  }

  /// A divisor that is alike in all lanes, of which none may be on: then it may be an extent of a tensor
  /// without elements, and division by 0 would trap.
  Expr divisor_without_lanes(const Expr& b) const {
    if (const auto* broadcast = b.as<BroadcastNode>())
      return std::make_shared<BroadcastNode>(divisor_without_lanes(broadcast->value), broadcast->type.lanes);
    return b.as<IntImmNode>() ? b : nonzero_divisor(b, signs_);
  }

  Expr widen_binary(const BinaryNode* node) {
    Expr a = widen(node->a), b = widen(node->b);
    const bool masked = static_cast<bool>(mask_) && divides_integers(*node);
    const bool varies = b.type().lanes > 1 && !b.as<BroadcastNode>();
    if (masked && varies) {
      // Lanes that are off hold zeros; integer division by them would trap.
      b = select(mask_, b, vector_of(int_imm(b.type().dtype, 1)));
    } else if (masked && !first_lane_active_) {
      b = divisor_without_lanes(b);
    }
    return binary(node->op, a, b);
  }

  Expr widen_call(const CallNode* node) {
    if (node->fn == MathFn::kIfThenElse) {
      Expr condition = widen(node->args[0]);
      if (condition.type().lanes == 1)
        return if_then_else(condition, widen(node->args[1]), widen(node->args[2]));
      Expr t = under(condition, node->args[0], [&] { return widen(node->args[1]); });
      Expr f =
          under(logical_not(condition), logical_not(node->args[0]), [&] { return widen(node->args[2]); });
      return select(condition, t, f);
    }
    std::vector<Expr> args;
    for (const Expr& arg : node->args) args.push_back(widen(arg));
    return call(node->fn, std::move(args));
  }

  Expr widen_load(const LoadNode* node) {
    Expr index = widen(node->index), predicate = widen(node->predicate);
    bool scalar = index.type().lanes == 1 && (!predicate || predicate.type().lanes == 1);
    // A scalar load under a mask is safe only if some lane asks for it.
    if (scalar && (!mask_ || first_lane_active_)) return load(node->buffer, index, predicate);
    if (mask_) predicate = predicate ? vector_of(predicate) && mask_ : mask_;
    if (predicate) predicate = vector_of(predicate);
    return load(node->buffer, vector_of(index), predicate);
  }

  Expr var_, low_;
  int lanes_;
  Simplifier& simplifier_;
  IndexSigns& signs_;
  Expr mask_;
  bool first_lane_active_ = true;
  int masks_ = 0;  ///< that have names
  std::unordered_map<const VarNode*, Expr> widened_;
  std::unordered_map<const ExprNode*, std::pair<Expr, Expr>> memo_;
};

class Vectorizer : public StmtMutator {
 protected:
  Stmt mutate_launch(const LaunchNode* node, const Stmt& self) override {
    for (size_t i = 0; i < 3; ++i) {
      simplifier_.bind(node->block_vars[i], Expr(0), node->grid[i]);
      signs_.set_non_negative(node->block_vars[i].as<VarNode>());
    }
    simplifier_.bind(node->thread_var, Expr(0), Expr(node->threads));
    signs_.set_non_negative(node->thread_var.as<VarNode>());
    return StmtMutator::mutate_launch(node, self);
  }

  Stmt mutate_for(const ForNode* node, const Stmt& self) override {
    simplifier_.bind(node->var, node->low, node->extent);
    signs_.set_at_least(node->var.as<VarNode>(), node->low);
    Stmt mutated = StmtMutator::mutate_for(node, self);
    const auto* loop = mutated.as<ForNode>();
    if (!loop || loop->loop != LoopKind::kVectorized) return mutated;
    auto lanes = constant_of(loop->extent);
    if (lanes == 1) return for_loop(loop->var, loop->low, loop->extent, LoopKind::kSerial, loop->body);
    if (lanes) {
      try {
        return Widener(*loop, static_cast<int>(*lanes), simplifier_, signs_).widen(loop->body);
      } catch (const CannotVectorize&) {
      }
    }
    return for_loop(loop->var, loop->low, loop->extent, LoopKind::kSerial, loop->body);
  }
  Stmt mutate_let(const LetStmtNode* node, const Stmt& self) override {
    signs_.set_at_least(node->var.as<VarNode>(), node->value);
    return StmtMutator::mutate_let(node, self);
  }

 private:
  Simplifier simplifier_;
  IndexSigns signs_;
};

}  // namespace

Stmt vectorize_loops(const Stmt& s) {
  return Vectorizer().mutate_stmt(s);
}

}  // namespace gantry
