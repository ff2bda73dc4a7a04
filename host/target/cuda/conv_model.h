// Which algorithm a convolution takes on a GPU.
#pragma once

#include "host/codegen/target.h"
#include "host/ops/conv.h"
#include "host/passes/node_decision.h"

namespace gantry::cuda {

/// Seconds of a convolution by an algorithm that fits it: kGemm, or one of Winograd's with its transformations.
/// `data`, `result`: (N, C, spatial…); symbolic extents count as typical ones.
double predicted_seconds(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                         ConvAlgorithm algorithm, const GpuModel& gpu);
/// The fastest algorithm. Winograd's only for f32 products of constant shape: with rounded operands its
/// transformations would lose too much.
ConvAlgorithm choose_conv_algorithm(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                                    const Target& target);

/// Every algorithm with its prediction, for explanations.
std::vector<Candidate> conv_candidates(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                                       const Target& target);

}  // namespace gantry::cuda
