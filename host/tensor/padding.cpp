#include "host/tensor/padding.h"

#include "host/tensor/conjunction.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

bool is_zero(const Expr& e) {
  if (const auto* imm = e.as<FloatImmNode>()) return imm->value == 0;
  if (const auto* imm = e.as<IntImmNode>()) return imm->value == 0;
  return false;
}

}  // namespace

std::optional<Expr> without_padding(ReduceKind kind, const Expr& value, std::vector<Expr>& inside) {
  if (const auto* choice = value.as<CallNode>(); choice && choice->fn == MathFn::kIfThenElse) {
    const Expr& fill = choice->args[2];
    bool neutral = kind == ReduceKind::kSum ? is_zero(fill)
                                            : structurally_equal(fill, identity_of(kind, value.type().dtype));
    if (!neutral) return std::nullopt;
    collect_conjuncts(choice->args[0], inside);
    return choice->args[1];
  }
  if (kind != ReduceKind::kSum) return std::nullopt;
  if (const auto* node = value.as<CastNode>()) {
    auto x = without_padding(kind, node->a, inside);
    return x ? std::optional<Expr>(cast(value.type().dtype, *x)) : std::nullopt;
  }
  const auto* node = value.as<BinaryNode>();
  if (!node || node->op != BinaryOp::kMul) return std::nullopt;
  auto a = without_padding(kind, node->a, inside), b = without_padding(kind, node->b, inside);
  if (!a && !b) return std::nullopt;
  return a.value_or(node->a) * b.value_or(node->b);
}

}  // namespace gantry
