// Reductions over padded data, without the padding.
#pragma once

#include <optional>
#include <vector>

#include "host/tensor/expr.h"

namespace gantry {

/// Where the reduced `value` is if_then_else(inside, x, fill) and the fill leaves the reduction as it is (its
/// identity, or a zero factor of what is summed up): the value with x in its place. Appends the conjuncts of
/// `inside`, under which alone the value counts. Nothing if there is no such choice in the value. A zero that
/// would have met an infinite or NaN factor is taken to leave the sum as it is, too.
std::optional<Expr> without_padding(ReduceKind kind, const Expr& value, std::vector<Expr>& inside);

}  // namespace gantry
