// Types and lanes of expressions in loop programs. Private to host/loops.
#pragma once

#include <optional>
#include <string>

#include "host/tensor/expr.h"

namespace gantry {

/// What is wrong with the node itself, its operands taken as they say they are: "adds f32 to i64"; nothing where
/// nothing is.
std::optional<std::string> type_fault(const Expr& e);

}  // namespace gantry
