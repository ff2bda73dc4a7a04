#include "device_runtime/src/dim_program.h"

#include "device_runtime/src/module_format.h"

namespace gantry::runtime {
namespace {

using module_format::DimExpr;
using module_format::DimOpcode;
using module_format::DimStep;

/// a op b; false on overflow or division by zero.
bool apply(DimOpcode opcode, int64_t a, int64_t b, int64_t* result) {
  switch (opcode) {
    case DimOpcode::Add:
      return !__builtin_add_overflow(a, b, result);
    case DimOpcode::Mul:
      return !__builtin_mul_overflow(a, b, result);
    case DimOpcode::FloorDiv:
      if (b == 0 || (a == INT64_MIN && b == -1)) return false;
      *result = a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
      return true;
    case DimOpcode::Mod:
      if (b == 0) return false;
      if (b == -1) {
        *result = 0;
        return true;
      }
      *result = a % b;
      if (*result != 0 && (*result < 0) != (b < 0)) *result += b;
      return true;
    case DimOpcode::Max:
      *result = a > b ? a : b;
      return true;
    case DimOpcode::Min:
      *result = a < b ? a : b;
      return true;
    default:
      return false;
  }
}

/// A piece of text and how tightly its outermost operator binds: 0 sum, 1 product, 2 atom.
struct TextPiece {
  std::string text;
  int binding = 2;
};

TextPiece combine(DimOpcode opcode, TextPiece a, TextPiece b) {
  switch (opcode) {
    case DimOpcode::Add:
      return {a.text + (b.text.starts_with('-') ? "" : "+") + b.text, 0};
    case DimOpcode::Mul:
      if (a.binding < 1) a.text = "(" + a.text + ")";
      if (b.binding < 1) b.text = "(" + b.text + ")";
      if (a.text == "-1") return {"-" + b.text, 1};
      return {a.text + "*" + b.text, 1};
    case DimOpcode::FloorDiv:
      return {"floordiv(" + a.text + ", " + b.text + ")"};
    case DimOpcode::Mod:
      return {"mod(" + a.text + ", " + b.text + ")"};
    case DimOpcode::Max:
      return {"max(" + a.text + ", " + b.text + ")"};
    default:
      return {"min(" + a.text + ", " + b.text + ")"};
  }
}

}  // namespace

Status check_dim_program(const DimExpr& program, uint32_t symbol_count) {
  const auto& steps = *program.steps();
  if (steps.size() > module_format::kMaxDimSteps) return failure(GANTRY_INVALID_MODULE, "is too long");
  uint32_t depth = 0;
  for (const DimStep* step : steps) {
    switch (step->opcode()) {
      case DimOpcode::Symbol:
        if (step->value() < 0 || step->value() >= int64_t{symbol_count}) {
          return failure(GANTRY_INVALID_MODULE, "names symbol %lld of %u",
                         static_cast<long long>(step->value()), symbol_count);
        }
        [[fallthrough]];
      case DimOpcode::Constant:
        if (++depth > module_format::kMaxDimStack) return failure(GANTRY_INVALID_MODULE, "nests too deeply");
        break;
      case DimOpcode::Add:
      case DimOpcode::Mul:
      case DimOpcode::FloorDiv:
      case DimOpcode::Mod:
      case DimOpcode::Max:
      case DimOpcode::Min:
        if (depth < 2) return failure(GANTRY_INVALID_MODULE, "has an operator without its operands");
        --depth;
        break;
      default:
        return failure(GANTRY_INVALID_MODULE, "has the unknown opcode %d", static_cast<int>(step->opcode()));
    }
  }
  if (depth != 1) return failure(GANTRY_INVALID_MODULE, "leaves %u values instead of one", depth);
  return Status();
}

Result<int64_t> evaluate_dim(const DimExpr& program, std::span<const int64_t> symbols) {
  int64_t stack[module_format::kMaxDimStack];
  size_t depth = 0;
  for (const DimStep* step : *program.steps()) {
    if (step->opcode() == DimOpcode::Constant) {
      stack[depth++] = step->value();
    } else if (step->opcode() == DimOpcode::Symbol) {
      stack[depth++] = symbols[static_cast<size_t>(step->value())];
    } else {
      --depth;
      if (!apply(step->opcode(), stack[depth - 1], stack[depth], &stack[depth - 1])) {
        return failure(GANTRY_INVALID_ARGUMENT, "a dimension overflows or divides by zero");
      }
    }
  }
  return stack[0];
}

std::optional<int64_t> constant_dim(const DimExpr& program) {
  const auto& steps = *program.steps();
  if (steps.size() != 1 || steps.Get(0)->opcode() != DimOpcode::Constant) return std::nullopt;
  return steps.Get(0)->value();
}

std::optional<uint32_t> symbol_dim(const DimExpr& program) {
  const auto& steps = *program.steps();
  if (steps.size() != 1 || steps.Get(0)->opcode() != DimOpcode::Symbol) return std::nullopt;
  return static_cast<uint32_t>(steps.Get(0)->value());
}

std::string dim_text(const DimExpr& program, const module_format::Manifest& manifest) {
  std::vector<TextPiece> stack;
  for (const DimStep* step : *program.steps()) {
    if (step->opcode() == DimOpcode::Constant) {
      stack.push_back({std::to_string(step->value())});
    } else if (step->opcode() == DimOpcode::Symbol) {
      stack.push_back({manifest.symbols()->Get(static_cast<uint32_t>(step->value()))->str()});
    } else {
      TextPiece right = std::move(stack.back());
      stack.pop_back();
      stack.back() = combine(step->opcode(), std::move(stack.back()), std::move(right));
    }
    // Long before a person would stop reading, texts of nested expressions could grow without bound.
    if (stack.back().text.size() > 1000) stack.back().text = "…";
  }
  return stack.back().text;
}

}  // namespace gantry::runtime
