// What a target wants of alter_layout.
#pragma once

#include "host/codegen/target.h"
#include "host/passes/alter_layout.h"
#include "host/passes/passes.h"

namespace gantry {

/// Blocks as the tile model chooses them for the target.
LayoutPolicy make_layout_policy(const Target& target);

/// Vectors of f32 of a CPU.
AttentionPolicy make_attention_policy(const Target& target);

}  // namespace gantry
