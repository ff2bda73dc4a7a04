#include "host/tensor/element.h"

#include <cmath>
#include <cstring>

#include "host/graph/small_float.h"
#include "host/support/error.h"

namespace gantry {
namespace {

template <typename T>
T read_as(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}
template <typename T>
void write_as(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

}  // namespace

float half_to_float(uint16_t bits) {
  int exponent = (bits >> 10) & 31;
  int mantissa = bits & 1023;
  float magnitude = exponent == 31  ? (mantissa ? std::nanf("") : INFINITY)
                    : exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                    : std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

uint16_t float_to_half(float value) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  float magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  if (magnitude >= 65520.0F) return sign | 0x7c00;
  if (magnitude < 0x1p-14F) return sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24F));
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  auto steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 11 - exponent)));  // 1024 .. 2048
  return sign | static_cast<uint16_t>(((exponent + 14) << 10) + (steps - 1024));
}

double read_float(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<double>(read_as<float>(at));
    case DType::kF64:
      return read_as<double>(at);
    case DType::kF16:
      return static_cast<double>(half_to_float(read_as<uint16_t>(at)));
    case DType::kBF16:
      return static_cast<double>(bfloat_to_float(read_as<uint16_t>(at)));
    default:
      if (is_small_float(dtype)) return small_float_value(dtype, read_as<uint8_t>(at));
      internal_error("{} read as a float", name_of(dtype));
  }
}

int64_t read_integer(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kI4:
    case DType::kI2:
    case DType::kI8:
      return read_as<int8_t>(at);
    case DType::kI16:
      return read_as<int16_t>(at);
    case DType::kI32:
      return read_as<int32_t>(at);
    case DType::kI64:
      return read_as<int64_t>(at);
    case DType::kU4:
    case DType::kU2:
    case DType::kU8:
      return read_as<uint8_t>(at);
    case DType::kU16:
      return read_as<uint16_t>(at);
    case DType::kU32:
      return read_as<uint32_t>(at);
    case DType::kU64:
    case DType::kString:  // its number
      return static_cast<int64_t>(read_as<uint64_t>(at));
    case DType::kBool:
      return read_as<uint8_t>(at) != 0;
    default:
      internal_error("{} read as an integer", name_of(dtype));
  }
}

void write_float(DType dtype, std::byte* at, double value) {
  switch (dtype) {
    case DType::kF32:
      return write_as(at, static_cast<float>(value));
    case DType::kF64:
      return write_as(at, value);
    case DType::kF16:
      return write_as(at, float_to_half(static_cast<float>(value)));
    case DType::kBF16:
      return write_as(at, float_to_bfloat(static_cast<float>(value)));
    default:
      if (is_small_float(dtype)) return write_as(at, small_float_code(dtype, value));
      internal_error("{} written as a float", name_of(dtype));
  }
}

void write_integer(DType dtype, std::byte* at, int64_t value) {
  switch (byte_width(dtype)) {
    case 1:
      return write_as(at,
                      dtype == DType::kBool ? static_cast<uint8_t>(value != 0) : static_cast<uint8_t>(value));
    case 2:
      return write_as(at, static_cast<uint16_t>(value));
    case 4:
      return write_as(at, static_cast<uint32_t>(value));
    case 8:
      return write_as(at, value);
    default:
      internal_error("{} written as an integer", name_of(dtype));
  }
}

}  // namespace gantry
