// Divisions by sizes that are known only when a kernel runs.
#pragma once

#include "host/tensor/expr.h"

namespace gantry {

/// Whether a floordiv or mod in the expression has a divisor that is no constant: tens of cycles on a CPU.
bool divides_by_size(const Expr& e);

}  // namespace gantry
