#include "host/graph/small_float.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tests/graph/small_float_reference.h"

namespace gantry {
namespace {

class EverySmallFloat : public ::testing::TestWithParam<int> {
 protected:
  DType dtype() const { return static_cast<DType>(static_cast<int>(DType::kF8E4M3FN) + GetParam()); }
  const reference::SmallFloatReference& expected() const {
    return reference::kSmallFloats[static_cast<size_t>(GetParam())];
  }
};

double half(uint32_t bits) {
  const uint32_t exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return std::copysign(mantissa != 0 ? NAN : INFINITY, sign);
  return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, static_cast<int>(exponent) - 25));
}

TEST_P(EverySmallFloat, HasTheValuesOfMlDtypes) {
  const auto& values = expected().values;
  ASSERT_EQ(values.size(), size_t{1} << bit_width(dtype()));
  for (size_t code = 0; code < values.size(); ++code) {
    const auto value = static_cast<double>(std::bit_cast<float>(values[code]));
    const double ours = small_float_value(dtype(), static_cast<uint8_t>(code));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(ours)) << code;
      continue;
    }
    EXPECT_EQ(std::bit_cast<uint64_t>(ours), std::bit_cast<uint64_t>(value)) << code;
  }
}

TEST_P(EverySmallFloat, RoundsEveryHalfAsMlDtypesDoes) {
  const auto& steps = expected().steps;
  for (size_t k = 0; k < steps.size(); k += 2) {
    const uint32_t end = k + 2 < steps.size() ? steps[k + 2] : 0x10000;
    for (uint32_t bits = steps[k]; bits < end; ++bits)
      ASSERT_EQ(small_float_code(dtype(), half(bits)), steps[k + 1]) << "f16 " << bits;
  }
}

TEST_P(EverySmallFloat, RoundsADoubleOnce) {
  // A little more than half way between two neighbours is nearer to the upper one, however little it is.
  if (dtype() == DType::kF8E8M0FNU) return;
  for (uint8_t code = 0; code < small_float(dtype()).largest; ++code) {
    const double low = small_float_value(dtype(), code), high = small_float_value(dtype(), code + 1);
    EXPECT_EQ(small_float_code(dtype(), (low + high) / 2 * (1 + 0x1p-50)), code + 1);
    EXPECT_EQ(small_float_code(dtype(), (low + high) / 2 * (1 - 0x1p-50)), code);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, EverySmallFloat, ::testing::Range(0, 8));

TEST(SmallIntegers, AreNamedAndHaveABytePerElement) {
  for (const char* name : {"i4", "u4", "i2", "u2", "f4e2m1fn", "f6e3m2fn", "f8e5m2"}) {
    const auto dtype = parse_dtype(name);
    ASSERT_TRUE(dtype) << name;
    EXPECT_EQ(name_of(*dtype), name);
    EXPECT_EQ(byte_width(*dtype), 1);
  }
  EXPECT_EQ(bit_width(DType::kI4), 4);
  EXPECT_TRUE(is_signed_int(DType::kI2));
  EXPECT_TRUE(is_unsigned_int(DType::kU4));
  EXPECT_FALSE(is_unsigned_int(DType::kF4E2M1FN));
}

}  // namespace
}  // namespace gantry
