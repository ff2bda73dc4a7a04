// Lower bounds of dimensions, said as simply as possible.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "host/graph/dim.h"

namespace gantry {

/// dim >= least.
struct DimAtLeast {
  Dim dim;
  int64_t least = 0;
};

/// Statements that together say `dim >= least` for all symbols >= 0, each of a simpler dimension where there
/// is one: floordiv(H-7, 2)+1 >= 1 becomes H >= 7. Empty where it always holds.
std::vector<DimAtLeast> simplest_at_least(const Dim& dim, int64_t least);

/// Dimensions that are all at least 1 where `dim` is, and only there: the factors of a product of sizes, else
/// `dim` alone.
std::vector<Dim> sizes_multiplied(const Dim& dim);

/// A lower bound of a - b for all symbol values, if one is known. Where no dimension may hold the difference,
/// as beside the ends of i64, a and b are taken each by itself, and what is beyond an end is that end.
std::optional<int64_t> least_difference(const Dim& a, const Dim& b);

}  // namespace gantry
