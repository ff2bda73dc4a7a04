#include "host/graph/small_float.h"

#include <array>
#include <cmath>
#include <limits>

#include "host/support/error.h"

namespace gantry {
namespace {

constexpr int kExponentBias = 127;  // of f8e8m0fnu
constexpr uint8_t kExponentNan = 0xff;

// In the order of DType.
constexpr std::array<SmallFloat, 8> kFormats = {{
    {4, 3, 7, 0x7e, 0x7f, 0x7f, true},     // f8e4m3fn
    {4, 3, 8, 0x7f, 0x80, 0x80, false},    // f8e4m3fnuz
    {5, 2, 15, 0x7b, 0x7c, 0x7e, true},    // f8e5m2
    {5, 2, 16, 0x7f, 0x80, 0x80, false},   // f8e5m2fnuz
    {8, 0, kExponentBias, 0xfe, kExponentNan, kExponentNan, false},
    {2, 3, 1, 0x1f, 0x1f, 0x20, true},     // f6e2m3fn
    {3, 2, 3, 0x1f, 0x1f, 0x20, true},     // f6e3m2fn
    {2, 1, 1, 0x07, 0x07, 0x08, true},     // f4e2m1fn
}};

uint8_t exponent_code(double value) {
  if (!(value > 0) || std::isinf(value)) return kExponentNan;
  int exponent = std::ilogb(value);
  if (std::ldexp(value, -exponent) >= 1.5) ++exponent;
  const int code = std::max(exponent + kExponentBias, 0);
  return code < kExponentNan ? static_cast<uint8_t>(code) : kExponentNan;
}

}  // namespace

const SmallFloat& small_float(DType dtype) {
  internal_check(is_small_float(dtype), "{} is no float of 8 bits or less", name_of(dtype));
  return kFormats[static_cast<size_t>(dtype) - static_cast<size_t>(DType::kF8E4M3FN)];
}

double small_float_value(DType dtype, uint8_t code) {
  const SmallFloat& format = small_float(dtype);
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (dtype == DType::kF8E8M0FNU) return code == kExponentNan ? kNan : std::ldexp(1.0, code - kExponentBias);
  if (!format.signed_special && code == format.nan) return kNan;
  const int sign_bit = 1 << (format.exponent_bits + format.mantissa_bits);
  const int magnitude = code & (sign_bit - 1);
  const double sign = (code & sign_bit) != 0 ? -1.0 : 1.0;
  if (magnitude > format.largest) {
    const bool infinite = magnitude == format.overflow && format.overflow != format.nan;
    return std::copysign(infinite ? std::numeric_limits<double>::infinity() : kNan, sign);
  }
  const int steps = 1 << format.mantissa_bits;
  const int exponent = magnitude >> format.mantissa_bits;
  const int mantissa = magnitude % steps + (exponent > 0 ? steps : 0);
  return sign * std::ldexp(mantissa, std::max(exponent, 1) - format.bias - format.mantissa_bits);
}

uint8_t small_float_code(DType dtype, double value) {
  if (dtype == DType::kF8E8M0FNU) return exponent_code(value);
  const SmallFloat& format = small_float(dtype);
  const int sign_bit = std::signbit(value) ? 1 << (format.exponent_bits + format.mantissa_bits) : 0;
  const auto special = [&](uint8_t code) {
    return static_cast<uint8_t>(format.signed_special ? code ^ sign_bit : code);
  };
  if (std::isnan(value)) return special(format.nan);
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return format.signed_special ? static_cast<uint8_t>(sign_bit) : 0;
  if (magnitude > 2 * small_float_value(dtype, format.largest)) return special(format.overflow);
  const int smallest = 1 - format.bias;  // exponent of normal numbers
  const int exponent = std::max(std::ilogb(magnitude), smallest);
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent)));
  // One step beyond a binade's last is the next one's first; below the smallest exponent the codes are the steps.
  const int code = ((exponent - smallest) << format.mantissa_bits) + steps;
  if (code > format.largest) return special(format.overflow);
  if (code == 0 && !format.signed_special) return 0;
  return static_cast<uint8_t>(code | sign_bit);
}

}  // namespace gantry
