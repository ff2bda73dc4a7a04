#include "host/loops/lower.h"
#include "host/loops/ranged_mutator.h"

namespace gantry {
namespace {

// A loop of more iterations than this stays a loop: code size costs more than the branch.
constexpr int64_t kMaxUnroll = 128;

class Unroller : public StmtMutator {
 protected:
  Stmt mutate_for(const ForNode* node, const Stmt& self) override {
    Stmt body = mutate_stmt(node->body);
    if (node->loop != LoopKind::kUnrolled) {
      return body.same_as(node->body) ? self : for_loop(node->var, node->low, node->extent, node->loop, body);
    }
    auto* extent = node->extent.as<IntImmNode>();
    if (!extent || extent->value > kMaxUnroll) {
      return for_loop(node->var, node->low, node->extent, LoopKind::kSerial, body);
    }
    std::vector<Stmt> copies;
    for (int64_t i = 0; i < extent->value; ++i) {
      copies.push_back(substitute(body, {{node->var.as<VarNode>(), node->low + Expr(i)}}));
    }
    return block(std::move(copies));
  }
};

}  // namespace

Stmt unroll_loops(const Stmt& s) { return s ? Unroller().mutate_stmt(s) : s; }

}  // namespace gantry
