#include "host/graph/small_float.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "host/tensor/fold.h"
#include "tests/codegen/run_kernel.h"
#include "tests/graph/small_float_reference.h"

namespace gantry {
namespace {

constexpr int kLanes = 16;

/// out[i] = cast(in[i]), by vectors of 16.
template <typename From, typename To>
std::vector<To> convert(DType from, DType to, std::vector<From> in, const std::string& target) {
  const auto count = static_cast<int64_t>(in.size());
  Buffer source = argument("in", from, count), result = argument("out", to, count);
  Expr i = make_var("i"), lanes = ramp(i * kLanes, 1, kLanes);
  Stmt body = for_loop(i, 0, count / kLanes, LoopKind::kSerial, store(result, lanes, cast(to, load(source, lanes))));
  std::vector<To> out(in.size());
  EXPECT_EQ(run_kernel(make_kernel("convert", {source, result}, body), {in.data(), out.data()}, {}, nullptr, target),
            0);
  return out;
}

using Case = std::tuple<int, std::string>;

class SmallFloatKernel : public ::testing::TestWithParam<Case> {
 protected:
  DType dtype() const { return static_cast<DType>(static_cast<int>(DType::kF8E4M3FN) + std::get<0>(GetParam())); }
  const std::string& target() const { return std::get<1>(GetParam()); }
  const reference::SmallFloatReference& expected() const {
    return reference::kSmallFloats[static_cast<size_t>(std::get<0>(GetParam()))];
  }
};

TEST_P(SmallFloatKernel, ReadsEveryCodeAsMlDtypesDoes) {
  const auto& values = expected().values;
  std::vector<uint8_t> codes(values.size());
  std::iota(codes.begin(), codes.end(), uint8_t{0});
  const auto read = convert<uint8_t, uint32_t>(dtype(), DType::kF32, codes, target());
  for (size_t code = 0; code < values.size(); ++code) {
    if (std::isnan(std::bit_cast<float>(values[code])))
      EXPECT_TRUE(std::isnan(std::bit_cast<float>(read[code]))) << code;
    else
      EXPECT_EQ(read[code], values[code]) << code;
  }
}

TEST_P(SmallFloatKernel, RoundsEveryHalfAsMlDtypesDoes) {
  std::vector<uint16_t> halves(0x10000);
  std::iota(halves.begin(), halves.end(), uint16_t{0});
  const auto written = convert<uint16_t, uint8_t>(DType::kF16, dtype(), halves, target());
  const auto& steps = expected().steps;
  for (size_t k = 0; k < steps.size(); k += 2) {
    const uint32_t end = k + 2 < steps.size() ? steps[k + 2] : 0x10000;
    for (uint32_t bits = steps[k]; bits < end; ++bits) {
      const bool is_nan = (bits & 0x7fff) > 0x7c00;  // whose sign f16's conversion may lose
      ASSERT_TRUE(written[bits] == steps[k + 1] || is_nan) << bits << " is " << int(written[bits]);
    }
  }
}

TEST_P(SmallFloatKernel, RoundsDoublesOnceAndFloatsOfAllMagnitudes) {
  std::vector<double> doubles{0, -0.0, INFINITY, -INFINITY, NAN, 1e300, -1e300, 1e-300};
  for (int code = 0; code < (1 << bit_width(dtype())); ++code) {
    const double value = small_float_value(dtype(), static_cast<uint8_t>(code));
    const double next = small_float_value(dtype(), static_cast<uint8_t>(code + 1));
    if (!std::isfinite(value) || !std::isfinite(next)) continue;
    for (const double error : {0.0, 0x1p-50, -0x1p-50, 0x1p-20, -0x1p-20}) doubles.push_back((value + next) / 2 * (1 + error));
  }
  while (doubles.size() % kLanes != 0) doubles.push_back(1);
  const auto written = convert<double, uint8_t>(DType::kF64, dtype(), doubles, target());
  std::vector<float> floats(doubles.begin(), doubles.end());
  const auto of_floats = convert<float, uint8_t>(DType::kF32, dtype(), floats, target());
  for (size_t i = 0; i < doubles.size(); ++i) {
    if (std::isnan(doubles[i])) continue;
    EXPECT_EQ(written[i], small_float_code(dtype(), doubles[i])) << doubles[i];
    EXPECT_EQ(of_floats[i], small_float_code(dtype(), static_cast<double>(floats[i]))) << floats[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, SmallFloatKernel,
                         ::testing::Combine(::testing::Range(0, 8), ::testing::Values("x86-64-v2", "native")));

class SmallIntegerKernel : public ::testing::TestWithParam<DType> {};

// ONNX: fixed point to fixed point discards the higher bits; it leaves floats beyond the range open, and its own tests
// discard the higher bits of these too.
TEST_P(SmallIntegerKernel, WrapsIntegersAndFloats) {
  const DType dtype = GetParam();
  const int bits = bit_width(dtype);
  std::vector<int32_t> whole(64);
  std::iota(whole.begin(), whole.end(), -32);
  const std::vector<float> floats(whole.begin(), whole.end());
  const auto of_integers = convert<int32_t, int8_t>(DType::kI32, dtype, whole, "native");
  const auto of_floats = convert<float, int8_t>(DType::kF32, dtype, floats, "native");
  const int span = 1 << bits, low = is_signed_int(dtype) ? -span / 2 : 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    const int wrapped = ((whole[i] - low) % span + span) % span + low;
    EXPECT_EQ(of_integers[i], wrapped) << whole[i];
    EXPECT_EQ(wrap_integer(dtype, whole[i]), wrapped);
    EXPECT_EQ(of_floats[i], wrapped) << whole[i];
    EXPECT_EQ(float_to_integer(dtype, static_cast<double>(floats[i])), wrapped);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, SmallIntegerKernel,
                         ::testing::Values(DType::kI4, DType::kU4, DType::kI2, DType::kU2));

TEST(WideHalf, IsRoundedOnceFromDoubles) {
  // In between, f32 would make a tie of what is none.
  std::vector<double> doubles(kLanes, 1 + 0x1p-11 + 0x1p-40);
  doubles[1] = 1 + 0x1p-11 - 0x1p-40;
  doubles[2] = -(1 + 3 * 0x1p-11 - 0x1p-40);
  const auto halves = convert<double, uint16_t>(DType::kF64, DType::kF16, doubles, "native");
  EXPECT_EQ(halves[0], 0x3c01);
  EXPECT_EQ(halves[1], 0x3c00);
  EXPECT_EQ(halves[2], 0xbc01);
}

TEST(WideBfloat, IsRoundedOnceFromIntegers) {
  // Most are one beyond the middle of two neighbours, which f32 cannot tell from the middle.
  const auto expect_rounded = [](DType from, auto whole, uint16_t expected) {
    using Integer = decltype(whole);
    const std::vector<Integer> integers(kLanes, whole);
    const auto written = convert<Integer, uint16_t>(from, DType::kBF16, integers, "native");
    EXPECT_EQ(written, std::vector<uint16_t>(kLanes, expected)) << name_of(from);
    const double number = integer_to_float(from, static_cast<int64_t>(whole), DType::kBF16);
    const auto folded = static_cast<float>(round_float(DType::kBF16, number));
    EXPECT_EQ(std::bit_cast<uint32_t>(folded) >> 16, expected) << name_of(from);
  };
  expect_rounded(DType::kI32, (1 << 24) + (1 << 16) + 1, 0x4b81);  // 2^24 + 2^17
  expect_rounded(DType::kI32, -(1 << 24) - (1 << 16) - 1, 0xcb81);
  expect_rounded(DType::kI32, (1 << 24) + (1 << 16), 0x4b80);  // a tie, to the even one
  expect_rounded(DType::kU32, (1U << 31) + (1U << 23) + 1, 0x4f01);
  expect_rounded(DType::kI64, (int64_t{1} << 40) + (int64_t{1} << 32) + 1, 0x5381);
  expect_rounded(DType::kI32, 255, 0x437f);
  // These even f64 cannot tell from the middle.
  constexpr int64_t kMiddle = (int64_t{1} << 53) + (int64_t{1} << 45);
  expect_rounded(DType::kI64, kMiddle + 1, 0x5a01);
  expect_rounded(DType::kI64, -kMiddle - 1, 0xda01);
  expect_rounded(DType::kI64, kMiddle, 0x5a00);
  expect_rounded(DType::kU64, (uint64_t{1} << 63) + (uint64_t{1} << 55) + 1, 0x5f01);
}

TEST(LongIntegers, AreRoundedOnceToFloats) {
  const auto expect_rounded = [](DType from, auto whole, float expected) {
    using Integer = decltype(whole);
    const std::vector<Integer> integers(kLanes, whole);
    const auto written = convert<Integer, float>(from, DType::kF32, integers, "native");
    EXPECT_EQ(written, std::vector<float>(kLanes, expected)) << name_of(from);
  };
  constexpr int64_t kEven = int64_t{1} << 53, kHalf = int64_t{1} << 29;  // from there on: half of f32's steps
  expect_rounded(DType::kI64, kEven + kHalf + 1, 0x1p53F + 0x1p30F);     // f64 takes it for the middle
  expect_rounded(DType::kI64, -kEven - kHalf - 1, -0x1p53F - 0x1p30F);
  expect_rounded(DType::kI64, kEven + 3 * kHalf - 1, 0x1p53F + 0x1p30F);
  expect_rounded(DType::kI64, kEven + kHalf, 0x1p53F);
  expect_rounded(DType::kI64, kEven + 3 * kHalf, 0x1p53F + 0x1p31F);
  expect_rounded(DType::kI64, std::numeric_limits<int64_t>::min(), -0x1p63F);
  expect_rounded(DType::kI64, int64_t{-5}, -5.0F);
  expect_rounded(DType::kU64, (uint64_t{1} << 63) + (uint64_t{1} << 39) + 1, 0x1p63F + 0x1p40F);
  expect_rounded(DType::kU64, (uint64_t{1} << 63) + (uint64_t{1} << 39), 0x1p63F);
  expect_rounded(DType::kU64, std::numeric_limits<uint64_t>::max(), 0x1p64F);
  expect_rounded(DType::kU64, uint64_t{5}, 5.0F);
}

TEST(LongIntegers, AreMadeExactInF64WhereVectorsGoByIt) {
  Buffer in = argument("in", DType::kI64, 4), out = argument("out", DType::kF32, 4);
  Expr at = ramp(0, 1, 4);
  const LoopKernel kernel =
      make_kernel("convert", {in, out}, store(out, at, cast(DType::kF32, load(in, at))));
  const auto text = [&](const char* target) { return emit_llvm_text(kernel, find_target(target)); };
  const auto has_limit = ::testing::HasSubstr("9007199254740992");  // 2^53
  EXPECT_THAT(text("aarch64"), has_limit);
  EXPECT_THAT(text("x86-64-v3"), ::testing::Not(has_limit));
}

}  // namespace
}  // namespace gantry
