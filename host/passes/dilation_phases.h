// Dilated convolutions as convolutions without dilation: with a dilation of d, every d-th line and column of
// an image meets only each other. The d * d such parts of an image, its phases, are images by themselves.
#pragma once

#include <optional>

#include "host/graph/graph.h"
#include "host/ops/conv.h"
#include "host/passes/weight_packing.h"

namespace gantry {

struct DilationPhases {
  ConvAttrs attrs;          ///< of the convolution of phases: neither dilation nor padding
  TensorType data, result;  ///< its images, (N * d * d, C, h, w)
};

/// Of a convolution of images (N, C, H, W) of known extents with strides of 1 and a window that is dilated
/// along both axes, by as much along each; nothing for others. Lines and columns beyond the image are zeros.
std::optional<DilationPhases> dilation_phases(const ConvAttrs& attrs, const TensorType& data,
                                              const TensorType& result);

/// (N, H, W, C), the data of `attrs`, to phases.data, channels-last.
Value* split_phases(WeightPacker& nodes, const ConvAttrs& attrs, const DilationPhases& phases, Value* image);
/// phases.result, channels-last, to `result`'s (N, OH, OW, O).
Value* join_phases(WeightPacker& nodes, const ConvAttrs& attrs, const TensorType& result, Value* phases);

}  // namespace gantry
