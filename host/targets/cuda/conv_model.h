// What convolutions take on a GPU.
#pragma once

#include "host/machine/target.h"
#include "host/ops/conv.h"

namespace gantry::cuda {

/// Seconds of a convolution by an algorithm that fits it: kGemm, or one of Winograd's with its transformations.
/// `data`, `result`: (N, C, spatial…); symbolic extents count as typical ones.
double predicted_seconds(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                         ConvAlgorithm algorithm, const GpuModel& gpu);
}  // namespace gantry::cuda
