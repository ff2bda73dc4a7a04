// Tensor expressions of the algorithms of nn.conv that work on the whole problem as matrix products; stages
// as listed in host/ops/conv.h. Data is (N, spatial…, C); the results are in the widened dtype.
#pragma once

#include "host/ops/conv.h"
#include "host/ops/op.h"

namespace gantry {

/// Weight ((groups,) K, O/groups).
Tensor conv_gemm(const Node& node, const ConvAttrs& attrs, const Tensor& x, const Tensor& weight);
/// The weight (channels, channels_in, 3, 3) of F(tile x tile, 3x3) packed for tile registers.
Shape winograd_tile_shape(int64_t tile, int64_t parts, TileUnit unit, int64_t channels,
                          const Dim& channels_in);
/// Weight in any of a Winograd algorithm's layouts.
Tensor conv_winograd(const Node& node, const ConvAttrs& attrs, const Tensor& x, const Tensor& weight);

}  // namespace gantry
