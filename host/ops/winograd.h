// Winograd's minimal filtering for 3x3 windows, F(2x2, 3x3), F(4x4, 3x3) and F(6x6, 3x3), after Lavin and
// Gray 2015.
//
// With the matrices below, a tile Y of m x m results of one pair of channels is
//   Y = A^T [ (G w G^T) * (B^T d B) ] A
// where d is the t x t data that the tile reads, t = m + 2, and * multiplies elementwise. Sums over input
// channels commute with A, so each of the t*t positions is one matrix product over channels.
//
// The matrices follow from interpolation at 0, 1, -1 (m = 2), also 2, -2 (m = 4), also 1/2, -1/2 (m = 6), and
// infinity.
#pragma once

#include <functional>
#include <vector>

#include "host/tensor/expr.h"

namespace gantry::ops {

using Matrix = std::vector<std::vector<double>>;

struct WinogradTransforms {
  Matrix input, weight, output;  ///< B^T (t x t), G (t x 3), A^T (m x t)
};

/// Of tiles of 2, 4 or 6; an internal error for others.
const WinogradTransforms& winograd_transforms(int64_t tile);

/// Row `row` (an expression) of the matrix times the vector `element`, in few operations: points come in
/// pairs +p, -p, so rows that differ only in the signs of some terms share the sums of the other terms, and
/// columns that do are added or subtracted first. The shared parts are written alike, for common
/// subexpressions to be found.
Expr winograd_row(const Matrix& matrix, const Expr& row, const std::function<Expr(int64_t)>& element);

}  // namespace gantry::ops
