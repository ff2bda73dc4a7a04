// What changing the order of a tensor's bytes costs.
#pragma once

namespace gantry::cpu {

/// In cycles a byte: transposing an image of few channels to channels-last, which tiles need and direct
/// convolutions may do without.
inline constexpr double kTransposedByte = 0.5;

}  // namespace gantry::cpu
