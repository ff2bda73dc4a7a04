// Winograd's minimal filtering for 3x3 windows, F(2x2, 3x3), F(4x4, 3x3) and F(6x6, 3x3), after Lavin and
// Gray 2015.
//
// With the matrices below, a tile Y of m x m results of one pair of channels is
//   Y = A^T [ (G w G^T) * (B^T d B) ] A
// where d is the t x t data that the tile reads, t = m + 2, and * multiplies elementwise. Sums over input
// channels commute with A, so each of the t*t positions is one matrix product over channels.
//
// The matrices follow from interpolation at infinity and 0, 1, -1 (m = 2); 0, 2/3, -2/3, 3/2, -3/2 (m = 4);
// 0, 1, -1, 2, -2, 1/2, -1/2 (m = 6). The points decide how far rounding errors grow: for independent data
// and weights the variance of an error in result i grows by k_i = sum over p of A_ip^2 |B_p|^2 |G_p|^2 / 3
// along an axis, of which the largest is 1.7, 7.1 and 46. At m = 4 the usual 1, -1, 2, -2 have 31, and no
// pairs have less than 7.1 (a search in steps of 1/40). Where a point is not 1, its column of A^T is scaled,
// and its row of G the other way, so that as many factors are 1 as with those.
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
