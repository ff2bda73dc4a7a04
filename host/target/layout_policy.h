// What a target wants of alter_layout.
#pragma once

#include "host/codegen/target.h"
#include "host/passes/alter_layout.h"
#include "host/passes/passes.h"

namespace gantry {

/// Blocks as the tile model chooses them for the target. `network`: what it is a policy for; nullptr: for
/// layers by themselves.
LayoutPolicy make_layout_policy(const Target& target, const Function* network = nullptr);

/// Only forms whose packed weights are not larger than the model's, but for a little padding; what a weight
/// is needed for elsewhere as it is, is not packed a second time.
void keep_weights_small(LayoutPolicy& policy);

/// Vectors of f32 of a CPU.
AttentionPolicy make_attention_policy(const Target& target);

}  // namespace gantry
