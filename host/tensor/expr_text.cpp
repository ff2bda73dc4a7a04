// Text of expressions.
#include <fmt/format.h>

#include <cmath>

#include "host/tensor/buffer.h"
#include "host/tensor/expr.h"
#include "host/tensor/tensor.h"

namespace gantry {
namespace {

/// Binding strength of infix operators; function-like ones have none.
struct Infix {
  std::string_view symbol;
  int level = 0;
};

Infix infix_of(BinaryOp op, bool boolean) {
  switch (op) {
    case BinaryOp::kOr:
      return {boolean ? "||" : "|", 1};
    case BinaryOp::kXor:
      return {"^", 2};
    case BinaryOp::kAnd:
      return {boolean ? "&&" : "&", 3};
    case BinaryOp::kEq:
      return {"==", 4};
    case BinaryOp::kNe:
      return {"!=", 4};
    case BinaryOp::kLt:
      return {"<", 5};
    case BinaryOp::kLe:
      return {"<=", 5};
    case BinaryOp::kGt:
      return {">", 5};
    case BinaryOp::kGe:
      return {">=", 5};
    case BinaryOp::kShl:
      return {"<<", 6};
    case BinaryOp::kShr:
      return {">>", 6};
    case BinaryOp::kAdd:
      return {"+", 7};
    case BinaryOp::kSub:
      return {"-", 7};
    case BinaryOp::kMul:
      return {"*", 8};
    case BinaryOp::kDiv:
      return {"/", 8};
    case BinaryOp::kRem:
      return {"%", 8};
    case BinaryOp::kFloorDiv:
      return {"floordiv", 0};
    case BinaryOp::kMod:
      return {"mod", 0};
    case BinaryOp::kMin:
      return {"min", 0};
    case BinaryOp::kMax:
      return {"max", 0};
  }
  return {"?", 0};
}

std::string print(const Expr& e, int level);

std::string list(const std::vector<Expr>& items) {
  std::string text;
  for (const Expr& item : items) text += (text.empty() ? "" : ", ") + print(item, 0);
  return text;
}

std::string print_integer(const IntImmNode* node) {
  if (node->type.dtype == DType::kBool) return node->value ? "true" : "false";
  if (node->type.dtype == DType::kI64) return fmt::format("{}", node->value);
  if (node->type.dtype == DType::kU64) return fmt::format("{}u64", static_cast<uint64_t>(node->value));
  return fmt::format("{}{}", node->value, name_of(node->type.dtype));
}

std::string print_float(const FloatImmNode* node) {
  std::string_view suffix = name_of(node->type.dtype);
  if (std::isinf(node->value)) return fmt::format("{}inf_{}", node->value < 0 ? "-" : "", suffix);
  if (std::isnan(node->value)) return fmt::format("nan_{}", suffix);
  std::string digits = node->type.dtype == DType::kF32 ? fmt::format("{}", static_cast<float>(node->value))
                                                       : fmt::format("{}", node->value);
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  return node->type.dtype == DType::kF32 ? digits : digits + std::string(suffix);
}

std::string print_binary(const BinaryNode* node, int level) {
  Infix infix = infix_of(node->op, node->type.dtype == DType::kBool);
  if (infix.level == 0) return fmt::format("{}({}, {})", infix.symbol, print(node->a, 0), print(node->b, 0));
  std::string text =
      fmt::format("{} {} {}", print(node->a, infix.level), infix.symbol, print(node->b, infix.level + 1));
  return infix.level < level ? "(" + text + ")" : text;
}

std::string print_reduce(const ReduceNode* node) {
  std::string axes;
  for (const IterVarPtr& axis : node->axes) axes += (axes.empty() ? "" : ", ") + axis->name();
  std::string condition = node->condition ? ", if " + print(node->condition, 0) : "";
  return fmt::format("{}({}, over {}{})", name_of(node->reduce), print(node->value, 0), axes, condition);
}

std::string print_load(const LoadNode* node) {
  std::string predicate = node->predicate ? " if " + print(node->predicate, 0) : "";
  return fmt::format("{}[{}{}]", node->buffer->name, print(node->index, 0), predicate);
}

std::string print(const Expr& e, int level) {
  if (!e) return "null";
  switch (e->kind) {
    case ExprKind::kIntImm:
      return print_integer(e.as<IntImmNode>());
    case ExprKind::kFloatImm:
      return print_float(e.as<FloatImmNode>());
    case ExprKind::kVar:
      return e.as<VarNode>()->name;
    case ExprKind::kBinary:
      return print_binary(e.as<BinaryNode>(), level);
    case ExprKind::kUnary:
      return fmt::format("{}{}", e.as<UnaryNode>()->op == UnaryOp::kNeg ? "-" : "!",
                         print(e.as<UnaryNode>()->a, 10));
    case ExprKind::kCall:
      return fmt::format("{}({})", name_of(e.as<CallNode>()->fn), list(e.as<CallNode>()->args));
    case ExprKind::kSelect: {
      const auto* s = e.as<SelectNode>();
      return fmt::format("select({}, {}, {})", print(s->condition, 0), print(s->if_true, 0),
                         print(s->if_false, 0));
    }
    case ExprKind::kCast:
      return fmt::format("{}({})", name_of(e->type.dtype), print(e.as<CastNode>()->a, 0));
    case ExprKind::kRead: {
      const auto* r = e.as<ReadNode>();
      std::string result = r->op->result_shapes.size() > 1 ? fmt::format(".{}", r->result) : "";
      return fmt::format("{}{}[{}]", r->op->name, result, list(r->indices));
    }
    case ExprKind::kLoad:
      return print_load(e.as<LoadNode>());
    case ExprKind::kReduce:
      return print_reduce(e.as<ReduceNode>());
    case ExprKind::kRamp: {
      const auto* r = e.as<RampNode>();
      return fmt::format("ramp({}, {}, {})", print(r->base, 0), print(r->stride, 0), r->type.lanes);
    }
    case ExprKind::kBroadcast:
      return fmt::format("x{}({})", e->type.lanes, print(e.as<BroadcastNode>()->value, 0));
    case ExprKind::kLet: {
      const auto* l = e.as<LetNode>();
      return fmt::format("(let {} = {} in {})", print(l->var, 0), print(l->value, 0), print(l->body, 0));
    }
  }
  return "?";
}

}  // namespace

std::string to_string(const Expr& e) {
  return print(e, 0);
}

std::string_view name_of(MathFn fn) {
  static constexpr std::string_view kNames[] = {
      "exp",   "log",   "sqrt",  "rsqrt",      "tanh",       "erf",         "sigmoid", "pow",
      "floor", "ceil",  "round", "trunc",      "abs",        "sin",         "cos",     "tan",
      "asin",  "acos",  "atan",  "sinh",       "cosh",       "asinh",       "acosh",   "atanh",
      "isnan", "isinf", "fma",   "round_tf32", "trunc_bf16", "if_then_else"};
  return kNames[static_cast<size_t>(fn)];
}

std::string_view name_of(ReduceKind kind) {
  static constexpr std::string_view kNames[] = {"sum", "prod", "max", "min", "any", "all", "max_or_nan", "min_or_nan"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace gantry
