// What the ops with a form `gemm` share; the form is described in host/ops/dense.h.
#pragma once

#include <vector>

#include "host/tensor/tensor.h"

namespace gantry::ops {

/// Row-major position of an element in a box of these extents.
Expr flatten(const std::vector<Expr>& index, const std::vector<Expr>& extents);
/// The index at a row-major position: the inverse of flatten.
std::vector<Expr> unflatten(const Expr& position, const std::vector<Expr>& extents);
/// The stage "gemm" of a ((g,) m, k) and b ((g,) k, n), widened.
Tensor gemm(const Tensor& a, const Tensor& b);

}  // namespace gantry::ops
