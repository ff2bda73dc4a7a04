// Division of counts into parts.
#pragma once

#include <cstdint>

namespace gantry {

/// The quotient rounded up; a >= 0, b > 0.
constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// The smallest multiple of `unit` that is at least `value`; value >= 0, unit > 0.
constexpr int64_t round_up(int64_t value, int64_t unit) {
  return ceil_div(value, unit) * unit;
}

}  // namespace gantry
