// What the models of a GPU's folder predict, for forms and reports.
#pragma once

#include "host/machine/target.h"
#include "host/ops/conv.h"

namespace gantry::costs {

/// In seconds, on a GPU of these figures.
struct GpuCosts {
  /// A convolution by an algorithm that fits it: kGemm, or one of Winograd's with its transformations.
  /// `data`, `result`: (N, C, spatial…); symbolic extents count as typical ones.
  double (*convolution)(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                        ConvAlgorithm algorithm, const GpuModel& gpu);
  /// A transposition of so many bytes.
  double (*transposition)(int64_t bytes, int64_t element_bytes, const GpuModel& gpu);
};

/// Of a target with a GPU, real or emulated.
const GpuCosts& gpu_costs(const Target& target);

}  // namespace gantry::costs
