// Elements of tensors in memory.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "host/graph/type.h"

namespace gantry {

/// Elements of the dense tensor at `at`; the dtype must be a float (integer, bool).
double read_float(DType dtype, const std::byte* at);
int64_t read_integer(DType dtype, const std::byte* at);
/// Rounds to nearest even (wraps).
void write_float(DType dtype, std::byte* at, double value);
void write_integer(DType dtype, std::byte* at, int64_t value);

/// IEEE half precision and bfloat16 bits.
float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);
inline float bfloat_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
inline uint16_t float_to_bfloat(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

}  // namespace gantry
