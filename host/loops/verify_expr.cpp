#include "host/loops/verify_expr.h"

#include <fmt/format.h>

#include "host/tensor/buffer.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

using Fault = std::optional<std::string>;

std::string text(const ExprType& type) {
  return type.lanes == 1 ? std::string(name_of(type.dtype)) : fmt::format("{} x {}", name_of(type.dtype), type.lanes);
}

bool is_null(const Expr& e) {
  return e.get() == nullptr;
}

/// Nothing, where `holds`.
Fault expect(bool holds, const char* what, const ExprType& is) {
  if (holds) return std::nullopt;
  return fmt::format("{} is {}", what, text(is));
}

Fault agree(const char* what, const Expr& a, const Expr& b) {
  if (a.type() == b.type()) return std::nullopt;
  return fmt::format("{} are {} and {}", what, text(a.type()), text(b.type()));
}

Fault binary_fault(const BinaryNode& node) {
  if (is_null(node.a) || is_null(node.b)) return "an operand is missing";
  if (Fault fault = agree("operands", node.a, node.b)) return fault;
  const DType dtype = is_comparison(node.op) ? DType::kBool : node.a.type().dtype;
  return expect(node.type == ExprType{dtype, node.a.type().lanes}, "the result", node.type);
}

Fault call_fault(const CallNode& node) {
  for (const Expr& arg : node.args)
    if (is_null(arg)) return "an argument is missing";
  const bool three = node.fn == MathFn::kIfThenElse || node.fn == MathFn::kFma;
  const size_t count = three ? 3 : node.fn == MathFn::kPow ? 2 : 1;
  if (node.args.size() != count)
    return fmt::format("{} has {} arguments, not {}", name_of(node.fn), node.args.size(), count);
  if (node.fn == MathFn::kIfThenElse) {
    if (Fault fault = expect(node.args[0].type() == ExprType{DType::kBool, 1}, "the condition", node.args[0].type()))
      return fault;
    if (Fault fault = agree("branches", node.args[1], node.args[2])) return fault;
    return expect(node.type == node.args[1].type(), "the result", node.type);
  }
  for (const Expr& arg : node.args)
    if (Fault fault = agree("arguments", node.args[0], arg)) return fault;
  const ExprType& of = node.args[0].type();
  const bool whole = !is_float(of.dtype) && node.fn != MathFn::kAbs;
  if (whole) return fmt::format("{} is of floats, not of {}", name_of(node.fn), text(of));
  const bool asks = node.fn == MathFn::kIsNan || node.fn == MathFn::kIsInf;
  return expect(node.type.lanes == of.lanes && (node.type.dtype == (asks ? DType::kBool : of.dtype)), "the result",
                node.type);
}

Fault select_fault(const SelectNode& node) {
  if (is_null(node.condition) || is_null(node.if_true) || is_null(node.if_false)) return "an operand is missing";
  if (Fault fault = agree("branches", node.if_true, node.if_false)) return fault;
  return expect(node.condition.type() == ExprType{DType::kBool, node.type.lanes}, "the condition",
                node.condition.type());
}

Fault load_fault(const LoadNode& node) {
  if (node.buffer == nullptr || is_null(node.index)) return "a load without buffer or index";
  const ExprType& index = node.index.type();
  if (index.dtype != DType::kI64) return fmt::format("the index is {}", text(index));
  if (node.type != ExprType{node.buffer->dtype, index.lanes})
    return fmt::format("{} elements of {} are loaded as {}", text({node.buffer->dtype, index.lanes}),
                       node.buffer->name, text(node.type));
  if (is_null(node.predicate)) return std::nullopt;
  return expect(node.predicate.type() == ExprType{DType::kBool, index.lanes}, "the predicate", node.predicate.type());
}

Fault ramp_fault(const RampNode& node) {
  if (is_null(node.base) || is_null(node.stride)) return "a ramp without base or stride";
  if (Fault fault = agree("base and stride", node.base, node.stride)) return fault;
  if (node.type.lanes < 2 || node.base.type().lanes != 1) return "a ramp of vectors, or of a single lane";
  return expect(node.type.dtype == node.base.type().dtype, "the result", node.type);
}

Fault broadcast_fault(const BroadcastNode& node) {
  if (is_null(node.value)) return "copies of nothing";
  if (node.type.lanes < 2 || node.value.type().lanes != 1) return "copies of a vector, or a single one";
  return expect(node.type.dtype == node.value.type().dtype, "the result", node.type);
}

Fault let_fault(const LetNode& node) {
  if (!node.var.as<VarNode>() || is_null(node.value) || is_null(node.body)) return "a let without variable or value";
  if (Fault fault = agree("the variable and its value", node.var, node.value)) return fault;
  return expect(node.type == node.body.type(), "the result", node.type);
}

}  // namespace

std::optional<std::string> type_fault(const Expr& e) {
  switch (e->kind) {
    case ExprKind::kIntImm:
    case ExprKind::kFloatImm:
      return expect(e.type().lanes == 1 && is_float(e.type().dtype) == (e->kind == ExprKind::kFloatImm), "a constant",
                    e.type());
    case ExprKind::kVar:
      return std::nullopt;
    case ExprKind::kBinary:
      return binary_fault(*e.as<BinaryNode>());
    case ExprKind::kUnary:
      return is_null(e.as<UnaryNode>()->a) ? Fault("an operand is missing") : std::nullopt;
    case ExprKind::kCall:
      return call_fault(*e.as<CallNode>());
    case ExprKind::kSelect:
      return select_fault(*e.as<SelectNode>());
    case ExprKind::kCast:
      if (is_null(e.as<CastNode>()->a)) return "an operand is missing";
      return expect(e.type().lanes == e.as<CastNode>()->a.type().lanes, "the result", e.type());
    case ExprKind::kRead:
      return "a tensor's element is read, which is a load after lowering";
    case ExprKind::kLoad:
      return load_fault(*e.as<LoadNode>());
    case ExprKind::kReduce:
      return "a reduction, which is a loop after lowering";
    case ExprKind::kRamp:
      return ramp_fault(*e.as<RampNode>());
    case ExprKind::kBroadcast:
      return broadcast_fault(*e.as<BroadcastNode>());
    case ExprKind::kLet:
      return let_fault(*e.as<LetNode>());
  }
  return "an unknown kind of expression";
}

}  // namespace gantry
