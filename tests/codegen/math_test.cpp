// Kernels' math functions against long double libm, over wide ranges and at the special values.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cfloat>
#include <cmath>
#include <random>
#include <type_traits>

#include "host/codegen/find_target.h"
#include "tests/codegen/run_kernel.h"

namespace gantry {
namespace {

using Reference = long double (*)(long double);
long double sigmoid(long double x) {
  return 1 / (1 + std::exp(-x));
}
long double rsqrt(long double x) {
  return 1 / std::sqrt(x);
}

struct Function {
  MathFn fn;
  Reference exact;
  double low, high;  ///< of the arguments tried, besides special values
  double f32_bound;  ///< relative error
  double f64_bound;
  bool absolute = false;  ///< the f64 bound is absolute (zeros of sin …)
};
const std::vector<Function> kFunctions = {{MathFn::kExp, std::exp, -120, 100, 2e-7, 1e-14},
                                          {MathFn::kLog, std::log, 1e-3, 1e3, 2e-7, 1e-14},
                                          {MathFn::kTanh, std::tanh, -12, 12, 2e-7, 1e-14},
                                          {MathFn::kErf, std::erf, -7, 7, 2e-7, 1e-13},
                                          {MathFn::kSigmoid, sigmoid, -80, 80, 2e-7, 1e-14},
                                          {MathFn::kSqrt, std::sqrt, 0, 1e6, 6.1e-8, 1.2e-16},
                                          {MathFn::kRsqrt, rsqrt, 1e-6, 1e6, 1.3e-7, 2.3e-16},
                                          {MathFn::kSin, std::sin, -2000, 2000, 6.1e-8, 1e-13, true},
                                          {MathFn::kCos, std::cos, -2000, 2000, 6.1e-8, 1e-13, true},
                                          {MathFn::kTan, std::tan, -1.5, 1.5, 6.1e-8, 1e-12},
                                          {MathFn::kAsin, std::asin, -1, 1, 6.1e-8, 1e-13},
                                          {MathFn::kAcos, std::acos, -1, 1, 6.1e-8, 1e-13},
                                          {MathFn::kAtan, std::atan, -50, 50, 6.1e-8, 1e-13},
                                          {MathFn::kSinh, std::sinh, -80, 80, 6.1e-8, 1e-13},
                                          {MathFn::kCosh, std::cosh, -80, 80, 6.1e-8, 1e-13},
                                          {MathFn::kAsinh, std::asinh, -1e4, 1e4, 6.1e-8, 1e-13},
                                          {MathFn::kAcosh, std::acosh, 1, 1e4, 6.1e-8, 1e-13},
                                          {MathFn::kAtanh, std::atanh, -0.9999, 0.9999, 6.1e-8, 1e-13},
                                          {MathFn::kFloor, std::floor, -99, 99, 0, 0},
                                          {MathFn::kCeil, std::ceil, -99, 99, 0, 0},
                                          {MathFn::kTrunc, std::trunc, -99, 99, 0, 0},
                                          {MathFn::kRound, std::rint, -99, 99, 0, 0}};

LoopKernel unary_kernel(const Function& f, DType dtype, int64_t count, int lanes) {
  Buffer in = argument("in", dtype, count), out = argument("out", dtype, count);
  Expr i = make_var("i"), at = ramp(i * lanes, 1, lanes);
  Stmt body = store(out, at, call(f.fn, {load(in, at)}));
  std::string name = "f_" + std::string(name_of(f.fn)) + (dtype == DType::kF32 ? "_f32" : "_f64");
  return make_kernel(name, {in, out}, for_loop(i, 0, count / lanes, LoopKind::kSerial, body));
}

template <typename T>
using BitsOf = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

/// What NVIDIA's GPUs make of every NaN: all bits below the sign are set.
template <typename T>
T full_nan() {
  return std::bit_cast<T>(static_cast<BitsOf<T>>(~BitsOf<T>{0} >> 1));
}

bool is_circular(const Function& f) {
  return f.fn == MathFn::kSin || f.fn == MathFn::kCos || f.fn == MathFn::kTan;
}

template <typename T>
std::vector<T> arguments(const Function& f) {
  std::vector<T> x{T(0),
                   T(-0.0),
                   T(1),
                   T(-1),
                   T(0.5),
                   T(-0.5),
                   std::numeric_limits<T>::infinity(),
                   -std::numeric_limits<T>::infinity(),
                   std::numeric_limits<T>::quiet_NaN(),
                   full_nan<T>(),
                   -full_nan<T>(),
                   std::numeric_limits<T>::max(),
                   std::numeric_limits<T>::lowest(),
                   std::numeric_limits<T>::min(),
                   std::numeric_limits<T>::denorm_min(),
                   T(1e-10),
                   T(-1e-10),
                   T(1.5),
                   T(2.5)};
  std::mt19937 random(17);
  std::uniform_real_distribution<double> uniform(f.low, f.high), exponent(-30, 0);
  while (x.size() < 20000) x.push_back(static_cast<T>(uniform(random)));
  if (is_circular(f)) {  // of any size: turns are taken off exactly
    std::uniform_real_distribution<double> size(10, std::numeric_limits<T>::max_exponent - 1.0);
    while (x.size() < 21000) x.push_back(static_cast<T>(std::exp2(size(random)) * (random() % 2 == 0 ? 1 : -1)));
  }
  while (x.size() < 24000) x.push_back(static_cast<T>(uniform(random) * std::exp2(exponent(random))));
  return x;
}

/// Of what multiplies the rest to 1 by a large number, as GELU does, nothing may be left of it.
bool is_saturated(const Function& f, long double x) {
  return (f.fn == MathFn::kTanh || f.fn == MathFn::kErf) && std::fabs(x) >= 20;
}

template <typename T>
void check(const Function& f, const std::vector<T>& x, const std::vector<T>& y, double bound, bool absolute) {
  for (size_t i = 0; i < x.size(); ++i) {
    const long double exact = f.exact(x[i]);
    const T rounded = static_cast<T>(exact);
    if (std::isnan(rounded)) {
      ASSERT_TRUE(std::isnan(y[i])) << name_of(f.fn) << "(" << x[i] << ") = " << y[i];
    } else if (std::isinf(rounded) || is_saturated(f, x[i])) {
      ASSERT_EQ(y[i], rounded) << name_of(f.fn) << "(" << x[i] << ")";
    } else {
      const long double scale = absolute ? 1.0L : std::fabs(exact);
      // Denormal results: to the spacing of denormals.
      const long double allowed = bound * scale + 2 * std::numeric_limits<T>::denorm_min();
      ASSERT_LE(std::fabs(static_cast<long double>(y[i]) - exact), allowed)
          << name_of(f.fn) << "(" << x[i] << ") = " << y[i] << ", not " << static_cast<double>(exact);
    }
  }
}

class MathOn : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Targets, MathOn, ::testing::Values("native", "x86-64-v2", "x86-64-v3", "x86-64-v4"),
                         [](const auto& info) {
                           const std::string name = info.param;
                           return name == "native" ? "Native" : "X86v" + name.substr(name.size() - 1);
                         });

TEST_P(MathOn, EveryFunctionKeepsItsErrorBound) {
#if !defined(__x86_64__)
  if (GetParam() != std::string("native")) GTEST_SKIP() << "needs an x86-64 machine";
#else
  if (GetParam() == std::string("x86-64-v4") && !__builtin_cpu_supports("avx512dq"))
    GTEST_SKIP() << "needs a machine with AVX-512";
  if (GetParam() == std::string("x86-64-v3") && !__builtin_cpu_supports("avx2"))
    GTEST_SKIP() << "needs a machine with AVX2";
#endif
  constexpr int64_t kCount = 24000;
  std::vector<LoopKernel> kernels;
  for (const Function& f : kFunctions) {
    kernels.push_back(unary_kernel(f, DType::kF32, kCount, 16));
    kernels.push_back(unary_kernel(f, DType::kF64, kCount, 8));
  }
  LoadedImage image(build_image(kernels, find_target(GetParam()), 2));
  for (size_t k = 0; k < kFunctions.size(); ++k) {
    const Function& f = kFunctions[k];
    auto x = arguments<float>(f);
    std::vector<float> y(kCount);
    std::vector<void*> buffers{x.data(), y.data()};
    ASSERT_EQ(image.kernel(kernels[2 * k].name)(nullptr, buffers.data(), nullptr), 0);
    check(f, x, y, f.f32_bound, false);
    auto wide_x = arguments<double>(f);
    std::vector<double> wide_y(kCount);
    buffers = {wide_x.data(), wide_y.data()};
    ASSERT_EQ(image.kernel(kernels[2 * k + 1].name)(nullptr, buffers.data(), nullptr), 0);
    check(f, wide_x, wide_y, f.f64_bound, f.absolute);
  }
}

// Near a multiple of pi, and so large that the last bits of 2/pi that are looked at decide.
TEST(MathOfF64, SinesOfTheLargestArgumentsHaveAllTheirDigits) {
  std::vector<double> x{DBL_MAX,  -DBL_MAX,  0x1.0d12ebb9c8c12p+1023, -0x1.0d12ebb9c8c12p+1023,
                        0x1p1023, -0x1p1023, 0x1.4551061aadd5dp+1023, 0x1p1000};
  const auto count = static_cast<int64_t>(x.size());
  std::vector<double> sine(x.size()), tangent(x.size());
  Buffer in = argument("in", DType::kF64, count), out = argument("out", DType::kF64, count),
         other = argument("other", DType::kF64, count);
  Expr at = ramp(0, 1, 8);
  Stmt body = block({store(out, at, call(MathFn::kSin, {load(in, at)})),
                     store(other, at, call(MathFn::kTan, {load(in, at)}))});
  ASSERT_EQ(run_kernel(make_kernel("large", {in, out, other}, body), {x.data(), sine.data(), tangent.data()}),
            0);
  for (size_t i = 0; i < x.size(); ++i) {
    const auto close_to = [&](double got, long double exact, double bound) {
      EXPECT_LE(std::fabs(static_cast<long double>(got) - exact), bound * std::fabs(exact))
          << fmt::format("{:a}", x[i]) << ": " << got << ", not " << static_cast<double>(exact);
    };
    close_to(sine[i], std::sin(static_cast<long double>(x[i])), 1e-13);
    close_to(tangent[i], std::tan(static_cast<long double>(x[i])), 1e-13);
  }
}

TEST(MathOfF32, TruncationToBf16ClearsTheLowerHalf) {
  std::vector<float> x{0.F, -0.F, 1.F, -1.F, 3.14159265F, -2.7182818F, 1e-40F, 3e38F, INFINITY, -INFINITY};
  std::mt19937 random(3);
  while (x.size() < 320) x.push_back(std::bit_cast<float>(static_cast<uint32_t>(random()) & 0xbfffffffU));
  const auto count = static_cast<int64_t>(x.size());
  for (int lanes : {1, 16, 32}) {
    Buffer in = argument("in", DType::kF32, count), wide = argument("wide", DType::kF32, count),
           narrow = argument("narrow", DType::kBF16, count);
    Expr i = make_var("i"), at = lanes == 1 ? i : ramp(i * lanes, 1, lanes);
    Expr cut = call(MathFn::kTruncBf16, {load(in, at)});
    Stmt body = block({store(wide, at, load(in, at) - cut), store(narrow, at, cast(DType::kBF16, cut))});
    std::vector<float> rest(x.size());
    std::vector<uint16_t> halves(x.size());
    ASSERT_EQ(run_kernel(make_kernel("cut", {in, wide, narrow},
                                     for_loop(i, 0, count / lanes, LoopKind::kSerial, body)),
                         {x.data(), rest.data(), halves.data()}),
              0);
    for (size_t k = 0; k < x.size(); ++k) {
      const auto bits = std::bit_cast<uint32_t>(x[k]);
      EXPECT_EQ(halves[k], bits >> 16) << x[k] << ", " << lanes << " lanes";
      if (std::isinf(x[k])) continue;
      EXPECT_EQ(rest[k], x[k] - std::bit_cast<float>(bits & 0xffff0000U))
          << x[k] << ", " << lanes << " lanes";
    }
  }
}

/// Every pair of these values, for functions of two arguments.
std::vector<std::pair<float, float>> pairs() {
  const std::vector<float> values{0.f,      -0.f,      1.f,  -1.f,  2.f,    -2.f,  3.f,   0.5f,
                                  -0.5f,    1.5f,      -3.f, 7.25f, -7.25f, 100.f, 1e-3f, 1e30f,
                                  INFINITY, -INFINITY, NAN,  33.f,  -1e10f, 1e-30f};
  std::vector<std::pair<float, float>> result;
  for (float a : values) {
    for (float b : values) result.emplace_back(a, b);
  }
  std::mt19937 random(5);
  std::uniform_real_distribution<float> base(0, 20), power(-10, 10);
  while (result.size() % 8 != 0 || result.size() < 4000) result.emplace_back(base(random), power(random));
  return result;
}

void run_pairs(const std::function<Expr(Expr, Expr)>& f, const std::vector<std::pair<float, float>>& pairs,
               std::vector<float>& result) {
  const int64_t count = static_cast<int64_t>(pairs.size());
  Buffer a = argument("a", DType::kF32, count), b = argument("b", DType::kF32, count),
         out = argument("out", DType::kF32, count);
  Expr i = make_var("i"), at = ramp(i * 8, 1, 8);
  Stmt body = for_loop(i, 0, count / 8, LoopKind::kSerial, store(out, at, f(load(a, at), load(b, at))));
  std::vector<float> x, y;
  for (auto [p, q] : pairs) {
    x.push_back(p);
    y.push_back(q);
  }
  result.resize(pairs.size());
  ASSERT_EQ(run_kernel(make_kernel("pairs", {a, b, out}, body), {x.data(), y.data(), result.data()}), 0);
}

void expect_close(float got, double exact, double bound, const std::string& what) {
  const float rounded = static_cast<float>(exact);
  if (std::isnan(rounded)) {
    EXPECT_TRUE(std::isnan(got)) << what << " = " << got;
  } else if (std::isinf(rounded) || rounded == 0) {
    EXPECT_EQ(got, rounded) << what;
  } else {
    EXPECT_LE(std::abs(got - exact), bound * std::abs(exact) + 1e-44)
        << what << " = " << got << ", not " << exact;
  }
}

TEST(Power, AgreesWithLibmAtEverySpecialValue) {
  std::vector<float> result;
  const auto all = pairs();
  run_pairs([](Expr x, Expr y) { return call(MathFn::kPow, {x, y}); }, all, result);
  for (size_t i = 0; i < all.size(); ++i) {
    auto [x, y] = all[i];
    expect_close(result[i], std::pow(static_cast<double>(x), static_cast<double>(y)), 1e-7,
                 fmt::format("pow({}, {})", x, y));
  }
}

TEST(Power, OfAConstantIsMultipliedOut) {
  auto all = pairs();
  // Near 1 the roundings of products add up; of the others a product leaves the range of f32.
  for (float x : {1 + 0x1p-12f, 1 - 0x1p-12f, 2e19f, -2e19f, 1e26f, 2e-20f, 1.5e13f, -1.5e13f})
    all.emplace_back(x, 0.0f);
  for (float y : {0.0f, 1.0f, 2.0f, 3.0f, 4.5f, 5.0f, 16.0f, 31.5f, 32.0f, 0.5f, 1.5f, -0.5f, -1.0f, -1.5f,
                  -2.0f, -3.0f, -32.0f, 0.3f}) {
    std::vector<float> result;
    run_pairs(
        [&](Expr x, Expr) {
          return call(MathFn::kPow, {x, broadcast(float_imm(DType::kF32, y), 8)});
        },
        all, result);
    for (size_t i = 0; i < all.size(); ++i) {
      const double exact = std::pow(static_cast<double>(all[i].first), y);
      expect_close(result[i], exact, 4e-7, fmt::format("pow({}, {})", all[i].first, y));
    }
  }
}

// Where the power is denormal, that of the opposite exponent is infinite.
TEST(Power, OfAConstantThatIsNegativeMayBeADenormalF64) {
  for (const double y : {-1.5, -2.0, -2.5, -3.0, -4.0, -16.5, -31.5, -32.0}) {
    std::vector<double> x, result(8);
    for (const double digits : {308.3, 310.0, 315.0, 320.0, 340.0}) x.push_back(std::pow(10.0, -digits / y));
    x.insert(x.end(), {INFINITY, 0.0, 2.0});
    Buffer a = argument("a", DType::kF64, 8), out = argument("out", DType::kF64, 8);
    const Expr at = ramp(0, 1, 8);
    const Expr power = call(MathFn::kPow, {load(a, at), broadcast(float_imm(DType::kF64, y), 8)});
    ASSERT_EQ(run_kernel(make_kernel("denormal_powers", {a, out}, store(out, at, power)),
                         {x.data(), result.data()}),
              0);
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = std::pow(x[i], y),
                   bound = 1e-12 * exact + 2 * std::numeric_limits<double>::denorm_min();
      if (std::isinf(exact)) {
        EXPECT_EQ(result[i], exact) << x[i] << "^" << y;
      } else {
        EXPECT_NEAR(result[i], exact, bound) << x[i] << "^" << y;
      }
    }
  }
}

TEST(Power, OfIntegersIsExactAndWraps) {
  Buffer a = argument("a", DType::kI32, 8), b = argument("b", DType::kI32, 8),
         out = argument("out", DType::kI32, 8);
  Expr at = ramp(0, 1, 8);
  std::vector<int32_t> x{2, -3, 7, -1, -1, 5, 0, 3}, y{10, 3, 0, 7, -4, -2, 0, 40}, result(8);
  ASSERT_EQ(run_kernel(make_kernel("powers", {a, b, out},
                                   store(out, at, call(MathFn::kPow, {load(a, at), load(b, at)}))),
                       {x.data(), y.data(), result.data()}),
            0);
  uint32_t wrapped = 1;
  for (int i = 0; i < 40; ++i) wrapped *= 3;
  EXPECT_THAT(result, ::testing::ElementsAre(1024, -27, 1, -1, 1, 0, 1, static_cast<int32_t>(wrapped)));
}

TEST(Remainder, AgreesWithFmodExactly) {
  std::vector<float> result;
  const auto all = pairs();
  run_pairs([](Expr x, Expr y) { return binary(BinaryOp::kRem, x, y); }, all, result);
  for (size_t i = 0; i < all.size(); ++i) {
    auto [x, y] = all[i];
    const float exact = std::fmod(x, y);
    if (std::isnan(exact)) {
      EXPECT_TRUE(std::isnan(result[i])) << x << " % " << y;
    } else {
      EXPECT_EQ(result[i], exact) << x << " % " << y;
    }
  }
}

/// Of every size and of both signs, the ends of the range among them.
template <typename T>
std::vector<T> numbers_of_any_size() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> x{T(0),
                   T(-0.0),
                   T(0.1),
                   T(-1),
                   T(3),
                   T(1e-10),
                   T(1e16),
                   1 + Limits::epsilon(),
                   std::ldexp(T(3), 60) + 512,
                   Limits::max(),
                   Limits::lowest(),
                   Limits::min(),
                   Limits::min() - Limits::denorm_min(),
                   Limits::denorm_min(),
                   -Limits::denorm_min() * 5,
                   Limits::infinity(),
                   -Limits::infinity(),
                   Limits::quiet_NaN()};
  for (int power = 50; power <= 60; ++power) x.push_back(std::ldexp(T(1), power));
  std::mt19937_64 random(7);
  while (x.size() < 64) x.push_back(std::bit_cast<T>(static_cast<BitsOf<T>>(random())));
  return x;
}

/// Of every two such numbers.
template <typename T>
void expect_exact_remainders(const std::string& target) {
  std::vector<T> x, y;
  for (const T a : numbers_of_any_size<T>()) {
    for (const T b : numbers_of_any_size<T>()) {
      x.push_back(a);
      y.push_back(b);
    }
  }
  const auto count = static_cast<int64_t>(x.size());
  const DType dtype = sizeof(T) == 4 ? DType::kF32 : DType::kF64;
  Buffer a = argument("a", dtype, count), b = argument("b", dtype, count),
         out = argument("out", dtype, count);
  Expr i = make_var("i"), at = ramp(i * 4, 1, 4);
  Stmt body = store(out, at, binary(BinaryOp::kRem, load(a, at), load(b, at)));
  std::vector<T> result(x.size());
  ASSERT_EQ(
      run_kernel(make_kernel("remainders", {a, b, out}, for_loop(i, 0, count / 4, LoopKind::kSerial, body)),
                 {x.data(), y.data(), result.data()}, {}, nullptr, target),
      0);
  for (size_t k = 0; k < x.size(); ++k) {
    const T exact = std::fmod(x[k], y[k]);
    if (std::isnan(exact)) {
      ASSERT_TRUE(std::isnan(result[k])) << fmt::format("{} % {} = {}", x[k], y[k], result[k]);
    } else {
      ASSERT_EQ(std::bit_cast<BitsOf<T>>(result[k]), std::bit_cast<BitsOf<T>>(exact))
          << fmt::format("{} % {} = {}, not {}", x[k], y[k], result[k], exact);
    }
  }
}

// Quotients beyond 2^53, and beyond the range; with fused multiply-adds, where this machine has them, and
// without.
TEST(Remainder, IsExactWhateverTheQuotient) {
  std::vector<std::string> targets{"native"};
#if defined(__x86_64__)
  targets.emplace_back("x86-64-v2");
#endif
  for (const std::string& target : targets) {
    SCOPED_TRACE(target);
    expect_exact_remainders<float>(target);
    expect_exact_remainders<double>(target);
  }
}

}  // namespace
}  // namespace gantry
