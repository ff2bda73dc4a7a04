// What a condition is made of.
#pragma once

#include <vector>

#include "host/tensor/expr.h"

namespace gantry {

/// Appends the conditions that all have to hold for `condition` to hold, in their order; of what is no
/// conjunction, itself.
void collect_conjuncts(const Expr& condition, std::vector<Expr>& conjuncts);

}  // namespace gantry
