// What a sum is made of, such as an index or the product of a tile, and what divides in it.
#pragma once

#include <vector>

#include "host/tensor/expr.h"

namespace gantry {

/// Appends the addends of a sum, in their order; of what is no sum, itself.
void collect_terms(const Expr& e, std::vector<Expr>& terms);
/// Whether a floordiv or mod in the expression has a divisor that only a run of the kernel knows: tens of cycles on a
/// CPU.
bool divides_by_size(const Expr& e);

}  // namespace gantry
