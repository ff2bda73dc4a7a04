// How the elements that an expression reads lie in memory.
#pragma once

#include "host/tensor/tensor.h"

namespace gantry::analysis {

/// What is read for one element, down to tensors in memory: elementwise stages are substituted, reductions and
/// placeholders stay as reads.
Expr inline_all(const Expr& element);
/// True if some read of `element` moves by exactly one element of its tensor as `var` grows by one.
bool contiguous_along(const Expr& element, const Expr& var);

}  // namespace gantry::analysis
