// Loops whose vectors are read with a stride, while a step of the loop reads the next element.
//
//   for i in [0, 16)
//     out[ramp(a + i*384, 1, 16)] = in[ramp(b + i, 384, 16)]
// =>
//   rows = transpose in[b + 16 rows of 16, 384 apart]
//   for i in [0, 16), unrolled
//     out[ramp(a + i*384, 1, 16)] = rows[ramp(i*16, 1, 16)]
//
// The block is read along the other side and turned in registers: every element is loaded once, as part of a
// vector, where the loop would collect it by itself.
#include <optional>
#include <vector>

#include "host/loops/lower.h"
#include "host/loops/stmt.h"
#include "host/loops/unique_names.h"
#include "host/tensor/fold.h"
#include "host/tensor/simplifier.h"

namespace gantry {
namespace {

constexpr int64_t kMinSide = 4;
// As many vectors must be held at once.
constexpr int64_t kMaxSide = 16;

/// A load of the loop's body that is a row of the transposed block, and what it is replaced by.
struct Turned {
  const LoadNode* load;
  Buffer rows;
  Expr index, stride;  ///< of the block's first element; between the vectors that are read instead
};

/// The loads that run in every iteration, whatever the body chooses.
void always_loaded(const Expr& e, std::vector<const LoadNode*>& found) {
  if (const auto* load = e.as<LoadNode>()) {
    found.push_back(load);
  } else if (const auto* binary = e.as<BinaryNode>()) {
    always_loaded(binary->a, found);
    always_loaded(binary->b, found);
  } else if (const auto* unary = e.as<UnaryNode>()) {
    always_loaded(unary->a, found);
  } else if (const auto* cast = e.as<CastNode>()) {
    always_loaded(cast->a, found);
  } else if (const auto* select = e.as<SelectNode>()) {
    for (const Expr& part : {select->condition, select->if_true, select->if_false})
      always_loaded(part, found);
  } else if (const auto* call = e.as<CallNode>(); call && call->fn != MathFn::kIfThenElse) {
    for (const Expr& arg : call->args) always_loaded(arg, found);
  }
}

class LoadReplacer : public ExprMutator {
 public:
  LoadReplacer(const std::vector<Turned>& turned, const Expr& row, int side)
      : turned_(turned), row_(row), side_(side) {}

 protected:
  Expr mutate_load(const LoadNode* node, const Expr& self) override {
    for (const Turned& t : turned_) {
      if (t.load != node) continue;
      return load(t.rows, std::make_shared<RampNode>(row_ * Expr(side_), Expr(1), side_));
    }
    return ExprMutator::mutate_load(node, self);
  }

 private:
  const std::vector<Turned>& turned_;
  Expr row_;
  int side_;
};

class BlockTransposer : public StmtMutator {
 protected:
  // A GPU's threads read elements one by one.
  Stmt mutate_launch(const LaunchNode* /*node*/, const Stmt& self) override { return self; }

  Stmt mutate_for(const ForNode* node, const Stmt& self) override {
    const auto* body = node->body.as<StoreNode>();
    const auto side = constant_of(node->extent);
    const bool square = body != nullptr && side && body->value.type().lanes == *side;
    if (!square || *side < kMinSide || *side > kMaxSide || (*side & (*side - 1)) != 0 ||
        body->predicate.get() != nullptr)
      return StmtMutator::mutate_for(node, self);
    const auto* target = body->index.as<RampNode>();
    if (!target || constant_of(target->stride) != 1) return StmtMutator::mutate_for(node, self);
    std::vector<const LoadNode*> loads;
    always_loaded(body->value, loads);
    std::vector<Turned> turned;
    for (const LoadNode* load : loads) {
      if (auto t = turn(*load, *node, *body)) turned.push_back(std::move(*t));
    }
    return turned.empty() ? self : rewritten(*node, *body, turned, int(*side));
  }

 private:
  std::optional<Turned> turn(const LoadNode& node, const ForNode& loop, const StoreNode& body) {
    const auto* ramp = node.index.as<RampNode>();
    const auto* var = loop.var.as<VarNode>();
    if (!ramp || node.predicate.get() != nullptr || node.buffer == body.buffer ||
        ramp->base.type().lanes != 1 || mentions(ramp->stride, var) || constant_of(ramp->stride) == 1)
      return std::nullopt;
    const Expr first = substitute(ramp->base, {{var, loop.low}}),
               next = substitute(ramp->base, {{var, loop.low + loop.var}});
    if (constant_of(simplifier_.simplify(next - first - loop.var)) != 0) return std::nullopt;
    const int64_t side = node.type.lanes;
    auto rows = std::make_shared<BufferNode>();
    rows->name = names_(node.buffer->name + ".rows");
    rows->dtype = node.buffer->dtype;
    rows->element_count = side * side;
    rows->scope = BufferScope::kLocal;
    rows->alignment = int(side) * byte_width(rows->dtype);
    return Turned{&node, rows, first, ramp->stride};
  }

  static Stmt rewritten(const ForNode& loop, const StoreNode& body, const std::vector<Turned>& turned,
                        int side) {
    LoadReplacer replacer(turned, loop.var - loop.low, side);
    Stmt rows = store(body.buffer, body.index, replacer.mutate(body.value));
    std::vector<Stmt> statements;
    for (const Turned& t : turned)
      statements.push_back(transpose_block(t.rows, t.load->buffer, t.index, t.stride, side));
    statements.push_back(for_loop(loop.var, loop.low, loop.extent, LoopKind::kUnrolled, rows));
    Stmt result = block(std::move(statements));
    for (const Turned& t : turned) result = allocate(t.rows, result);
    return result;
  }

  Simplifier simplifier_;
  UniqueNames names_;
};

}  // namespace

Stmt transpose_blocks(const Stmt& s) {
  return BlockTransposer().mutate_stmt(s);
}

}  // namespace gantry
