// Tensor expressions of the algorithms of nn.conv that work on the whole problem as matrix products; stages
// as listed in host/ops/conv.h. Data is (N, spatial…, C); the results are in the widened dtype.
#pragma once

#include "host/ops/conv.h"
#include "host/ops/op.h"

namespace gantry {

/// Weight ((groups,) K, O/groups).
Tensor conv_gemm(const Node& node, const ConvAttrs& attrs, const Tensor& x, const Tensor& weight);
/// Weight (t*t, I, O).
Tensor conv_winograd(const Node& node, const ConvAttrs& attrs, const Tensor& x, const Tensor& weight);

}  // namespace gantry
