#pragma once

#include <cstdint>

namespace gantry {

/// What the target wants of recognize_attention.
struct AttentionPolicy {
  int64_t lanes = 16, registers = 32;  ///< of f32 vectors
};

}  // namespace gantry
