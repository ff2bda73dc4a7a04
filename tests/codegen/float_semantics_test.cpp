// Floats in generated code: what they become where they are converted, and extremes of NaN.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "tests/codegen/codegen_cases.h"
#include "tests/codegen/run_kernel.h"

namespace gantry {
namespace {

using codegen_cases::OnEveryLevel;

TEST_P(OnEveryLevel, FloatsBecomeIntegersBySaturation) {
  Buffer in = argument("in", DType::kF32, 8), i8 = argument("i8", DType::kI8, 8),
         u8 = argument("u8", DType::kU8, 8), i64 = argument("i64", DType::kI64, 8);
  Expr lanes = ramp(0, 1, 8);
  Expr x = load(in, lanes);
  Stmt body = block({store(i8, lanes, cast(DType::kI8, x)), store(u8, lanes, cast(DType::kU8, x)),
                     store(i64, lanes, cast(DType::kI64, x))});
  std::vector<float> a{0.9f, -0.9f, 127.6f, -300, 1e20f, -1e20f, 200.5f, NAN};
  std::vector<int8_t> r8(8);
  std::vector<uint8_t> ru8(8);
  std::vector<int64_t> r64(8);
  ASSERT_EQ(run_kernel(make_kernel("saturate", {in, i8, u8, i64}, body),
                       {a.data(), r8.data(), ru8.data(), r64.data()}, {}, nullptr, GetParam()),
            0);
  EXPECT_THAT(r8, ::testing::ElementsAre(0, 0, 127, -128, 127, -128, 127, 0));
  EXPECT_THAT(ru8, ::testing::ElementsAre(0, 0, 127, 0, 255, 0, 200, 0));
  EXPECT_THAT(r64, ::testing::ElementsAre(0, 0, 127, -300, std::numeric_limits<int64_t>::max(),
                                          std::numeric_limits<int64_t>::min(), 200, 0));
}

/// The integer of that type next to x from the side of 0, the nearest that there is where x is beyond all, 0
/// of NaN.
int64_t saturated(DType to, double x) {
  const int bits = static_cast<int>(bit_width(to));
  const double beyond = std::ldexp(1, is_signed_int(to) ? bits - 1 : bits);
  const double least = is_signed_int(to) ? -beyond : 0;
  if (std::isnan(x)) return 0;
  if (x <= least) return static_cast<int64_t>(least);
  if (x < beyond)
    return is_signed_int(to) ? static_cast<int64_t>(x) : static_cast<int64_t>(static_cast<uint64_t>(x));
  const uint64_t most = ~uint64_t{0} >> (64 - bits);
  return static_cast<int64_t>(is_signed_int(to) ? most >> 1 : most);
}

/// Floats about the ends of all integer types, and others.
template <typename T>
std::vector<T> floats_about_extremes() {
  std::vector<T> values{T{0},        T(-0.0),      T(0.5), T(-0.5), T(0.999), T(-0.999), T(1.5), T(-1.5),
                        T(INFINITY), T(-INFINITY), T(NAN), T(1e30), T(-1e30), T(1e-30),  T(3e9), T(-3e9)};
  for (const int bits : {7, 8, 15, 16, 31, 32, 63, 64}) {
    for (const T power : {static_cast<T>(std::ldexp(1, bits)), static_cast<T>(-std::ldexp(1, bits))}) {
      for (const T near :
           {power, power - 1, power + 1, std::nextafter(power, T{0}), std::nextafter(power, 2 * power)})
        values.push_back(near);
    }
  }
  return values;
}

/// Vectors of 16 and single ones, to each integer type.
template <typename T>
void expect_saturated(DType from, const std::string& target) {
  std::vector<T> values = floats_about_extremes<T>();
  while (values.size() % 16 != 0) values.push_back(T{42});
  const auto count = static_cast<int64_t>(values.size());
  for (const DType to : {DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kI32, DType::kU32,
                         DType::kI64, DType::kU64}) {
    Buffer in = argument("in", from, count), out = argument("out", DType::kI64, count),
           single = argument("single", DType::kI64, count);
    Expr i = make_var("i"), j = make_var("j"), lanes = ramp(i * 16, 1, 16);
    const auto converted = [&](const Expr& at) { return cast(DType::kI64, cast(to, load(in, at))); };
    const Stmt body =
        block({for_loop(i, 0, count / 16, LoopKind::kSerial, store(out, lanes, converted(lanes))),
               for_loop(j, 0, count, LoopKind::kSerial, store(single, j, converted(j)))});
    std::vector<int64_t> results(values.size()), singles(values.size());
    ASSERT_EQ(run_kernel(make_kernel("saturate", {in, out, single}, body),
                         {values.data(), results.data(), singles.data()}, {}, nullptr, target),
              0);
    for (size_t n = 0; n < values.size(); ++n) {
      const int64_t expected = saturated(to, static_cast<double>(values[n]));
      EXPECT_EQ(results[n], expected) << "of " << values[n] << " as " << name_of(to) << " in a vector";
      EXPECT_EQ(singles[n], expected) << "of " << values[n] << " as " << name_of(to);
    }
  }
}

TEST_P(OnEveryLevel, FloatsBeyondAnIntegerTypeBecomeItsNearest) {
  expect_saturated<float>(DType::kF32, GetParam());
  expect_saturated<double>(DType::kF64, GetParam());
}

/// The half nearest to x, ties to even, by search over all of them.
uint16_t nearest_half(float x, const std::vector<float>& halves) {
  uint16_t best = 0;
  double least = INFINITY;
  for (uint32_t h = 0; h < 0x8000; ++h) {
    const double value = h == 0x7c00 ? 65536.0 : halves[h];
    if (h > 0x7c00) break;
    const double distance = std::abs(std::abs(static_cast<double>(x)) - value);
    if (distance < least || (distance == least && h % 2 == 0)) {
      least = distance;
      best = static_cast<uint16_t>(h);
    }
  }
  return std::signbit(x) ? best | 0x8000 : best;
}

TEST_P(OnEveryLevel, HalvesAreReadExactlyAndWrittenToTheNearest) {
  const int64_t count = 1 << 16;
  Buffer in = argument("in", DType::kF16, count), out = argument("out", DType::kF32, count),
         wide = argument("wide", DType::kF32, 64), narrow = argument("narrow", DType::kF16, 64);
  Expr i = make_var("i"), lanes = ramp(i * 16, 1, 16), j = make_var("j");
  Stmt body = block(
      {for_loop(i, 0, count / 16, LoopKind::kSerial, store(out, lanes, cast(DType::kF32, load(in, lanes)))),
       for_loop(j, 0, 64, LoopKind::kSerial, store(narrow, j, cast(DType::kF16, load(wide, j))))});
  std::vector<uint16_t> halves(count), written(64);
  std::iota(halves.begin(), halves.end(), uint16_t{0});
  std::vector<float> read(count),
      inputs{0.f,   -0.f,     1.f,   65504.f, 65519.f,  65520.f,    1e9f,           INFINITY,       -INFINITY,
             6e-8f, 2.98e-8f, 3e-8f, 6.1e-5f, 6.09e-5f, 1.0009765f, 1.00048828125f, 1.00146484375f, -3.14159f,
             1e-9f, 0.1f};
  while (inputs.size() < 64)
    inputs.push_back(
        std::ldexp(1.f + 0.013f * static_cast<float>(inputs.size()), static_cast<int>(inputs.size()) - 45));
  ASSERT_EQ(run_kernel(make_kernel("halves", {in, out, wide, narrow}, body),
                       {halves.data(), read.data(), inputs.data(), written.data()}, {}, nullptr, GetParam()),
            0);
  for (int64_t h = 0; h < count; ++h) {
    const int exponent = (h >> 10) & 31, mantissa = h & 1023;
    const double sign = h & 0x8000 ? -1 : 1;
    if (exponent == 31 && mantissa != 0) {
      ASSERT_TRUE(std::isnan(read[h])) << h;
      continue;
    }
    const double expected = exponent == 31  ? INFINITY
                            : exponent == 0 ? std::ldexp(mantissa, -24)
                                            : std::ldexp(1024 + mantissa, exponent - 25);
    ASSERT_EQ(read[h], static_cast<float>(sign * expected)) << h;
  }
  for (size_t k = 0; k < 64; ++k) EXPECT_EQ(written[k], nearest_half(inputs[k], read)) << inputs[k];
}

TEST(Bfloat16, IsRoundedToNearestEven) {
  Buffer in = argument("in", DType::kF32, 8), out = argument("out", DType::kBF16, 8);
  Expr lanes = ramp(0, 1, 8);
  std::vector<uint32_t> bits{0x3f800000, 0x3f808000, 0x3f818000, 0x3f808001,
                             0x7f7fffff, 0x7fc00000, 0x80000001, 0xff800000};
  std::vector<uint16_t> c(8);
  ASSERT_EQ(run_kernel(make_kernel("bf16", {in, out}, store(out, lanes, cast(DType::kBF16, load(in, lanes)))),
                       {bits.data(), c.data()}),
            0);
  EXPECT_THAT(c, ::testing::ElementsAre(0x3f80, 0x3f80, 0x3f82, 0x3f81, 0x7f80, 0x7fc0, 0x8000, 0xff80));
}

TEST_P(OnEveryLevel, MinAndMaxReturnTheOtherOperandOfANaNThatIsNoConstant) {
  Buffer a = argument("a", DType::kF32, 8), b = argument("b", DType::kF32, 8),
         out = argument("out", DType::kF32, 32);
  Expr lanes = ramp(0, 1, 8);
  Expr x = load(a, lanes), y = load(b, lanes), zero = broadcast(float_imm(DType::kF32, 0), 8);
  Stmt body = block({store(out, lanes, min(x, y)), store(out, ramp(8, 1, 8), max(x, y)),
                     store(out, ramp(16, 1, 8), max(x, zero)), store(out, ramp(24, 1, 8), min(zero, x))});
  std::vector<float> va{NAN, 1, 2, -3, INFINITY, -INFINITY, NAN, 5}, vb{1, NAN, 3, -4, 2, 2, NAN, 5}, c(32);
  ASSERT_EQ(run_kernel(make_kernel("extremes", {a, b, out}, body), {va.data(), vb.data(), c.data()}, {},
                       nullptr, GetParam()),
            0);
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(c[i] == std::fmin(va[i], vb[i]) || (std::isnan(c[i]) && i == 6)) << i;
    EXPECT_TRUE(c[8 + i] == std::fmax(va[i], vb[i]) || (std::isnan(c[8 + i]) && i == 6)) << i;
    const bool nan = std::isnan(va[i]);
    EXPECT_TRUE(nan ? std::isnan(c[16 + i]) : c[16 + i] == std::fmax(va[i], 0.0f)) << i;
    EXPECT_TRUE(nan ? std::isnan(c[24 + i]) : c[24 + i] == std::fmin(va[i], 0.0f)) << i;
  }
}

// An accumulator that began as a number stays one, whichever operand it is; one that was given data may be
// NaN.
TEST_P(OnEveryLevel, ExtremesOfAnAccumulatorPassOverNaN) {
  Buffer a = argument("a", DType::kF32, 24), out = argument("out", DType::kF32, 24),
         most = local_buffer("most", DType::kF32, 8), least = local_buffer("least", DType::kF32, 8),
         copy = local_buffer("copy", DType::kF32, 8);
  const Expr lanes = ramp(0, 1, 8);
  auto number = [](double value) { return broadcast(float_imm(DType::kF32, value), 8); };
  std::vector<Stmt> steps{store(most, lanes, number(-INFINITY)), store(least, lanes, number(INFINITY)),
                          store(copy, lanes, load(a, lanes))};
  for (int64_t from : {0, 8, 16}) {
    const Expr x = load(a, ramp(from, 1, 8));
    steps.push_back(store(most, lanes, max(load(most, lanes), x)));
    steps.push_back(store(least, lanes, min(x, load(least, lanes))));
    steps.push_back(store(copy, lanes, max(load(copy, lanes), x)));
  }
  for (const auto& [buffer, at] : {std::pair(most, 0), std::pair(least, 8), std::pair(copy, 16)})
    steps.push_back(store(out, ramp(at, 1, 8), load(buffer, lanes)));
  const Stmt body = allocate(most, allocate(least, allocate(copy, block(std::move(steps)))));
  std::vector<float> x{NAN, 1, NAN, -3, INFINITY, NAN, NAN, 5,  2,   NAN, NAN, -4,
                       1,   1, 7,   5,  -2,       3,   8,   -5, NAN, 4,   NAN, NAN},
      y(24);
  ASSERT_EQ(
      run_kernel(make_kernel("extremes", {a, out}, body), {x.data(), y.data()}, {}, nullptr, GetParam()), 0);
  for (size_t i = 0; i < 8; ++i) {
    const float largest = std::fmax(std::fmax(x[i], x[8 + i]), x[16 + i]);
    EXPECT_EQ(y[i], largest) << i;
    EXPECT_EQ(y[8 + i], std::fmin(std::fmin(x[i], x[8 + i]), x[16 + i])) << i;
    EXPECT_EQ(y[16 + i], largest) << i;
  }
}

TEST_P(OnEveryLevel, MinAndMaxOfHalvesReturnTheOtherOperandOfANaN) {
  std::vector<float> va{NAN, 1, 2, -3, INFINITY, -INFINITY, NAN, 5}, vb{1, NAN, 3, -4, 2, 2, NAN, 5};
  std::vector<uint16_t> ha{0x7e00, 0x3c00, 0x4000, 0xc200, 0x7c00, 0xfc00, 0x7e00, 0x4500},
      hb{0x3c00, 0x7e00, 0x4200, 0xc400, 0x4000, 0x4000, 0x7e00, 0x4500};
  Buffer a = argument("a", DType::kF16, 8), b = argument("b", DType::kF16, 8);
  Expr lanes = ramp(0, 1, 8), x = load(a, lanes), y = load(b, lanes);
  // A kernel each: LLVM narrows only what has a single use.
  auto run = [&](Buffer out, Expr value, void* results) {
    const LoopKernel kernel = make_kernel("half_extremes", {a, b, out}, store(out, lanes, std::move(value)));
    ASSERT_EQ(run_kernel(kernel, {ha.data(), hb.data(), results}, {}, nullptr, GetParam()), 0);
  };
  for (bool is_max : {false, true}) {
    std::vector<uint16_t> halves(8);
    std::vector<float> floats(8);
    run(argument("out", DType::kF16, 8), is_max ? max(x, y) : min(x, y), halves.data());
    Expr wide_x = cast(DType::kF32, x), wide_y = cast(DType::kF32, y);
    run(argument("out", DType::kF32, 8), is_max ? max(wide_x, wide_y) : min(wide_x, wide_y), floats.data());
    for (size_t i = 0; i < 8; ++i) {
      const float expected = is_max ? std::fmax(va[i], vb[i]) : std::fmin(va[i], vb[i]);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(floats[i])) << i;
        EXPECT_GT(halves[i] & 0x7fff, 0x7c00) << i;
        continue;
      }
      EXPECT_EQ(floats[i], expected) << i;
      EXPECT_EQ(halves[i], expected == va[i] ? ha[i] : hb[i]) << i;
    }
  }
}

}  // namespace
}  // namespace gantry
