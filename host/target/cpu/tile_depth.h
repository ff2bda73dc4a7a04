// Products on tile registers whose depth is divided.
#pragma once

#include <cstdint>
#include <vector>

#include "host/codegen/target.h"
#include "host/tensor/tensor.h"

namespace gantry::cpu {

/// Parts into which the depth of a product is divided: one for each of two threads.
constexpr int64_t kDepthParts = 2;

/// `outputs` with a "tile_product" of adjoining rows, great depth and large weights as the sum of two: the
/// product gets an axis of parts, (part, rows, columns), and a stage "tile_partial" of the same axes writes
/// them to memory for who adds them. A part's operand is half as large, so that more of it stays in the
/// second-level cache; and as those who computed the data divided their columns, which are the depth here,
/// each thread finds its part in its own cache.
std::vector<Tensor> split_tile_depth(const std::vector<Tensor>& outputs, const Target& target);

}  // namespace gantry::cpu
