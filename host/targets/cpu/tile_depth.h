// Products on tile registers whose depth is divided.
#pragma once

#include <cstdint>
#include <vector>

#include "host/machine/target.h"
#include "host/tensor/tensor.h"

namespace gantry::cpu {

/// Parts into which the depth of a product is divided: one for each of two threads.
constexpr int64_t kDepthParts = 2;

/// For units whose products are fast (TileGeometry::fast_parts): `outputs` with a "tile_product" as the sum
/// of two, where rows adjoin, the depth is twice the columns or more and has an even number of blocks, and
/// neither the operand nor the weights stay in the cache: the product gets an axis of parts, (part, rows,
/// columns), and a stage "tile_partial" of the same axes writes them to memory for who adds them. A part's
/// operand is half as large, so that more of it stays in the second-level cache; and as those who computed
/// the data divided their columns, which are the depth here, each thread finds its part in its own cache. One
/// thread computes the parts one after the other; more than two share out the blocks of columns as well.
std::vector<Tensor> split_tile_depth(const std::vector<Tensor>& outputs, const Target& target);

}  // namespace gantry::cpu
