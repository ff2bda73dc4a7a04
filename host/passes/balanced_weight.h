// Weights for few bf16 parts (host/ops/tiles.h), rounded so that their rests cancel.
#pragma once

#include "host/graph/graph.h"

namespace gantry {

/// Which axis of weights counts the outputs.
enum class OutputAxis { kFirst, kLast };

/// f32 weights (O, …), or (…, O), that `parts` bf16 parts (1 or 2) hold exactly, near the given ones: each is a neighbour
/// of its weight among such numbers, nearly always the nearer one, and the differences of an output add up to
/// about nothing. Behind an activation the data are not negative; the mean that they have in common then
/// meets no error, which leaves about three fifths of it (of half-normal data, whose variance is 0.36 of the
/// mean square). Outputs with weights that are not finite stay as they are.
ConstantPtr balanced_weight(const ConstantData& weight, int64_t parts, OutputAxis outputs = OutputAxis::kFirst);

}  // namespace gantry
