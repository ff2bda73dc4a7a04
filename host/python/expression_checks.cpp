// What is wrong with a body whatever its schedule is, and would otherwise be found when code is generated, or
// not at all.
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "host/python/expressions.h"
#include "host/tensor/fold.h"
#include "host/tensor/simplify.h"

namespace gantry::python {
namespace {

/// A sum of multiples of variables: its bounds are reached.
bool is_linear(const Expr& e) {
  if (e.as<IntImmNode>() || e.as<VarNode>()) return true;
  const auto* node = e.as<BinaryNode>();
  if (!node || !is_linear(node->a) || !is_linear(node->b)) return false;
  if (node->op == BinaryOp::kMul) return constant_of(node->a) || constant_of(node->b);
  return node->op == BinaryOp::kAdd || node->op == BinaryOp::kSub;
}

/// Calls `visit` on the parts of an expression that is no read, reduction or variable.
template <typename Visit>
void for_each_part(const Expr& e, const Visit& visit) {
  if (const auto* binary = e.as<BinaryNode>()) {
    visit(binary->a);
    visit(binary->b);
  } else if (const auto* unary = e.as<UnaryNode>()) {
    visit(unary->a);
  } else if (const auto* cast = e.as<CastNode>()) {
    visit(cast->a);
  } else if (const auto* select = e.as<SelectNode>()) {
    for (const Expr& part : {select->condition, select->if_true, select->if_false}) visit(part);
  } else if (const auto* call = e.as<CallNode>()) {
    for (const Expr& argument : call->args) visit(argument);
  }
}

class Checker {
 public:
  Checker(const std::vector<IterVarPtr>& axes, const std::string& what) : what_(what) {
    for (const IterVarPtr& axis : axes) ranges_[axis->var.as<VarNode>()] = {axis->low, axis->extent};
  }

  /// `guarded`: evaluated under a condition that may keep indices inside.
  void check(const Expr& e, bool guarded) {
    if (!seen_.emplace(e.get(), guarded).second) return;
    if (e.as<VarNode>() && !ranges_.contains(e.as<VarNode>()))
      user_error("{}: {} is no axis of it", what_, to_string(e));
    if (const auto* load = e.as<LoadNode>())
      user_error("{}: {} is a buffer of a loop nest that is written by hand", what_, load->buffer->name);
    if (const auto* read = e.as<ReadNode>()) {
      for (size_t d = 0; d < read->indices.size(); ++d) {
        check(read->indices[d], guarded);
        if (!guarded) check_index(*read, d);
      }
    } else if (const auto* call = e.as<CallNode>(); call && call->fn == MathFn::kIfThenElse) {
      check(call->args[0], guarded);
      check(call->args[1], true);
      check(call->args[2], true);
    } else if (const auto* reduction = e.as<ReduceNode>()) {
      if (reduction->condition) check(reduction->condition, guarded);
      check(reduction->value, guarded || reduction->condition.get() != nullptr);
    } else {
      for_each_part(e, [&](const Expr& part) { check(part, guarded); });
    }
  }

 private:
  void check_index(const ReadNode& read, size_t dimension) const {
    const Expr index = simplify(read.indices[dimension], ranges_);
    if (!is_linear(index)) return;
    const Interval reached = bounds_of(index, ranges_);
    const int64_t size =
        constant_of(read.op->result_shapes[static_cast<size_t>(read.result)][dimension]).value();
    const bool below = reached.low && *reached.low < 0, above = reached.high && *reached.high >= size;
    if (!below && !above) return;
    user_error(
        "{}: reads {} at {}, which reaches {}, but dimension {} has the indices 0 to {}; te.if_then_else and "
        "a "
        "reduction's where= keep reads inside",
        what_, read.op->name, to_string(read.indices[dimension]), below ? *reached.low : *reached.high,
        dimension, size - 1);
  }

  std::string what_;
  RangeMap ranges_;
  std::set<std::pair<const ExprNode*, bool>> seen_;  ///< expressions share parts
};

/// Nodes of an expression that is written out, those of shared parts as often as they are used: as many as
/// `fixed`, and as what stands in the place of a variable has, so many times. Doubles, which do not overflow.
struct WrittenOut {
  double fixed = 0;
  std::map<const VarNode*, double> variables;

  void add(const WrittenOut& other, double times = 1) {
    fixed += times * other.fixed;
    for (const auto& [variable, count] : other.variables) variables[variable] += times * count;
  }
  double total() const {
    double sum = fixed;
    for (const auto& [variable, count] : variables) sum += count;
    return sum;
  }
};

/// Counts the nodes of bodies with those of inlined stages in them. Producers are counted first.
class InlinedCounter {
 public:
  explicit InlinedCounter(const Schedule& schedule) : schedule_(schedule) {}

  double count(const Stage& stage) {
    WrittenOut written = of(stage.op()->body);
    const double total = written.total();
    if (stage.attachment().is_inline()) inlined_[&stage] = std::move(written);
    return total;
  }

 private:
  WrittenOut of(const Expr& e) {
    if (const auto* variable = e.as<VarNode>()) return {0, {{variable, 1}}};
    if (const auto known = known_.find(e.get()); known != known_.end()) return known->second;
    WrittenOut written{1, {}};
    if (const auto* read = e.as<ReadNode>()) {
      written = of_read(*read);
    } else if (const auto* reduction = e.as<ReduceNode>()) {
      written.add(of(reduction->value));
      if (reduction->condition) written.add(of(reduction->condition));
    } else {
      for_each_part(e, [&](const Expr& part) { written.add(of(part)); });
    }
    return known_[e.get()] = std::move(written);
  }

  WrittenOut of_read(const ReadNode& read) {
    const auto inlined = inlined_.find(schedule_.find(read.op.get()));
    WrittenOut written{inlined == inlined_.end() ? 1 : inlined->second.fixed, {}};
    for (size_t d = 0; d < read.indices.size(); ++d) {
      double times = 1;
      if (inlined != inlined_.end()) {
        const auto used = inlined->second.variables.find(inlined->first->axes()[d]->var.as<VarNode>());
        times = used == inlined->second.variables.end() ? 0 : used->second;
      }
      written.add(of(read.indices[d]), times);
    }
    return written;
  }

  const Schedule& schedule_;
  std::map<const Stage*, WrittenOut> inlined_;
  std::unordered_map<const ExprNode*, WrittenOut> known_;  ///< the schedule keeps these expressions
};

/// Whether the stage, which has a body, reads one that is inlined.
bool reads_inlined(const Stage& stage, const Schedule& schedule) {
  bool found = false;
  walk(stage.op()->body, [&](const Expr& part) {
    const auto* read = part.as<ReadNode>();
    const Stage* producer = read ? schedule.find(read->op.get()) : nullptr;
    found |= producer != nullptr && producer->attachment().is_inline();
  });
  return found;
}

}  // namespace

void check_inlined(const Schedule& schedule) {
  InlinedCounter counter(schedule);
  for (const auto& stage : schedule.stages()) {
    if (!stage->op()->body || counter.count(*stage) <= static_cast<double>(kMostTerms)) continue;
    // What inlines nothing is within the bound as expressions count, which is not quite the number of nodes.
    if (!reads_inlined(*stage, schedule)) continue;
    user_error(
        "{}: has more than {} terms with what is inlined into it, those of stages that are read several "
        "times counted again: compute one of them at root or in a loop",
        stage->op()->name, kMostTerms);
  }
}

void check_body(const Expr& body, const std::vector<IterVarPtr>& axes, const std::string& what) {
  Checker(axes, what).check(body, false);
}

}  // namespace gantry::python
