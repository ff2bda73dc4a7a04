// What the models of a CPU predict for every form of a convolution or a product, for explanations.
#pragma once

#include <vector>

#include "host/codegen/target.h"
#include "host/ops/conv.h"
#include "host/passes/node_decision.h"

namespace gantry::cpu {

/// `data`, `result`: (N, C, spatial…). Those that do not fit say why.
std::vector<Candidate> conv_candidates(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                                       const Target& target);
/// `data`: (…, K).
std::vector<Candidate> dense_candidates(const TensorType& data, int64_t units, const Target& target);

}  // namespace gantry::cpu
