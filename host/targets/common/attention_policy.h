// What a CPU wants of recognize_attention.
#pragma once

#include "host/machine/target.h"
#include "host/passes/attention_policy.h"

namespace gantry {

/// Vectors of f32 of a CPU.
AttentionPolicy make_attention_policy(const Target& target);

}  // namespace gantry
