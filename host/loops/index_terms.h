// What a sum is made of, such as an index or the product of a tile, and what divides in it.
#pragma once

#include <vector>

#include "host/loops/index_signs.h"
#include "host/tensor/expr.h"

namespace gantry {

/// Appends the addends of a sum, in their order; of what is no sum, itself.
void collect_terms(const Expr& e, std::vector<Expr>& terms);
/// Whether it divides integers, or takes a remainder of them.
bool divides_integers(const BinaryNode& node);
/// Whether a floordiv or mod in the expression has a divisor that only a run of the kernel knows: tens of cycles on a
/// CPU.
bool divides_by_size(const Expr& e);
/// Whether it is computed of sizes alone, which are taken for positive where something is divided by them.
bool is_of_sizes(const Expr& e);
/// `b`, an integer, where it is not 0, else 1: for a division whose result is perhaps not used, where `b` may
/// be anything. Sizes, and what `signs` knows not to be negative, stay known not to be; data, what a let
/// stands for and differences of indices may be negative, and are as they are.
Expr nonzero_divisor(const Expr& b, const IndexSigns& signs);

}  // namespace gantry
