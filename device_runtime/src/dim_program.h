// Dimension expressions of a manifest: postfix programs over its symbols.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device_runtime/src/status.h"
#include "module_generated.h"

namespace gantry::runtime {

/// Checks opcodes, symbol indices and the stack of a program. INVALID_MODULE without a subject: the caller
/// says which.
Status check_dim_program(const module_format::DimExpr& program, uint32_t symbol_count);

/// Value of a checked program. INVALID_ARGUMENT on overflow and division by zero: the given shapes are to
/// blame.
Result<int64_t> evaluate_dim(const module_format::DimExpr& program, std::span<const int64_t> symbols);

/// The value of a program that is a single constant.
std::optional<int64_t> constant_dim(const module_format::DimExpr& program);
/// The index of the symbol that a program consists of.
std::optional<uint32_t> symbol_dim(const module_format::DimExpr& program);

/// A checked program as people write it: "2*N+1", "floordiv(H, 2)".
std::string dim_text(const module_format::DimExpr& program, const module_format::Manifest& manifest);

}  // namespace gantry::runtime
