// Ops that converters compose of others and that ONNX's data do not cover, against float64 loops after their
// definitions.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <numbers>

#include "tests/onnx/composed_ops.h"

namespace gantry {
namespace {

using namespace composed_ops;  // NOLINT

// --- Fourier transforms

Values naive_transform(const Values& x, bool complex, double sign) {
  const size_t n = x.size() / (complex ? 2 : 1);
  Values result;
  for (size_t k = 0; k < n; ++k) {
    std::complex<double> total = 0;
    for (size_t j = 0; j < n; ++j) {
      const double angle =
          sign * 2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n);
      const std::complex<double> value = complex ? std::complex(x[2 * j], x[2 * j + 1]) : x[j];
      total += value * std::polar(1.0, angle);
    }
    result.push_back(total.real());
    result.push_back(total.imag());
  }
  return result;
}

TEST(Fourier, LengthsThatArePrimeOrProductsGiveTheSum) {
  for (int64_t n : {1, 2, 5, 32, 37, 64, 90, 210}) {
    for (int64_t parts : {1, 2}) {
      SCOPED_TRACE(fmt::format("length {} parts {}", n, parts));
      const Inputs inputs{{"x", random({1, n, parts}, 7)}};
      const auto y = results(parse(node("DFT", "x", "y"), inputs, "y", kNewest), inputs)[0];
      expect_near(y, naive_transform(inputs[0].second.values, parts == 2, -1), 2e-4);
    }
  }
}

TEST(Fourier, TheInverseOfATransformIsTheSignal) {
  for (int64_t n : {4, 7, 66}) {
    for (bool half : {false, true}) {
      SCOPED_TRACE(fmt::format("length {} onesided {}", n, half));
      const Inputs inputs{{"x", random({1, n, 1}, 3)}};
      const std::string one = integer("onesided", half ? 1 : 0);
      const std::string nodes = constants("n", {{}, {static_cast<double>(n)}, DType::kI64}) +
                                node("DFT", "x", "y", one) +
                                node("DFT", "y n", "z", one + integer("inverse", 1));
      Values z = results(parse(nodes, inputs, "z", kNewest), inputs)[0];
      if (!half) {  // complex: the imaginary parts are 0
        for (size_t i = 0; i < z.size() / 2; ++i) {
          EXPECT_NEAR(z[2 * i + 1], 0, 1e-5);
          z[i] = z[2 * i];
        }
        z.resize(static_cast<size_t>(n));
      }
      expect_near(z, inputs[0].second.values, 1e-5);
    }
  }
}

// --- determinants

double cofactors(const Values& m, size_t n) {
  if (n == 1) return m[0];
  double total = 0;
  for (size_t column = 0; column < n; ++column) {
    Values rest;
    for (size_t i = n; i < n * n; ++i) {
      if (i % n != column) rest.push_back(m[i]);
    }
    total += (column % 2 == 0 ? 1 : -1) * m[column] * cofactors(rest, n - 1);
  }
  return total;
}

TEST(Det, IsTheSumOfCofactors) {
  for (int64_t n : {1, 2, 3, 5}) {
    Given given = random({2, n, n}, 11);
    given.values[0] = 0;  // a pivot that has to be found elsewhere
    const Inputs inputs{{"x", given}};
    const auto size = static_cast<size_t>(n * n);
    const Values first(given.values.begin(), given.values.begin() + static_cast<std::ptrdiff_t>(size));
    const Values second(given.values.begin() + static_cast<std::ptrdiff_t>(size), given.values.end());
    expect_near(results(parse(node("Det", "x", "y"), inputs, "y", kNewest), inputs)[0],
                {cofactors(first, static_cast<size_t>(n)), cofactors(second, static_cast<size_t>(n))}, 1e-4);
  }
}

TEST(Det, OfASingularMatrixIsZero) {
  const Inputs inputs{{"x", {{3, 3}, {1, 2, 3, 2, 4, 6, 0, 1, 1}}}};
  expect_near(results(parse(node("Det", "x", "y"), inputs, "y", kNewest), inputs)[0], {0}, 1e-6);
}

// --- distances of com.microsoft

TEST(CDist, IsOfEveryPairOfRows) {
  constexpr size_t kFirst = 4, kSecond = 3, kSize = 5;
  const Inputs inputs{{"a", random({kFirst, kSize}, 1)}, {"b", random({kSecond, kSize}, 2)}};
  for (const std::string metric : {"sqeuclidean", "euclidean"}) {
    Values expected;
    for (size_t i = 0; i < kFirst; ++i) {
      for (size_t j = 0; j < kSecond; ++j) {
        double squares = 0;
        for (size_t d = 0; d < kSize; ++d)
          squares +=
              std::pow(inputs[0].second.values[i * kSize + d] - inputs[1].second.values[j * kSize + d], 2);
        expected.push_back(metric == "euclidean" ? std::sqrt(squares) : squares);
      }
    }
    const std::string rest = attribute("metric", fmt::format("type: STRING s: '{}'", metric));
    expect_near(results(parse(node("CDist", "a b", "y", kMicrosoft + rest), inputs, "y", kNewest), inputs)[0],
                expected, 1e-4);
  }
}

// --- slices of com.microsoft

TEST(UnfoldTensor, ElementsOfSlicesAreTheLastAxis) {
  constexpr size_t kBefore = 2, kLength = 7, kBehind = 3;
  const Inputs inputs{{"x", random({kBefore, kLength, kBehind}, 1)}};
  for (const auto& [size, step] : {std::pair<size_t, size_t>{3, 2}, {2, 1}, {2, 4}, {7, 1}}) {
    Values expected;
    for (size_t i = 0; i < kBefore; ++i)
      for (size_t first = 0; first + size <= kLength; first += step)
        for (size_t j = 0; j < kBehind; ++j)
          for (size_t at = first; at < first + size; ++at)
            expected.push_back(inputs[0].second.values[(i * kLength + at) * kBehind + j]);
    const std::string rest = integer("dim", -2) + integer("size", static_cast<int64_t>(size)) +
                             integer("step", static_cast<int64_t>(step));
    const std::string nodes = node("UnfoldTensor", "x", "y", kMicrosoft + rest);
    expect_near(results(parse(nodes, inputs, "y", kNewest), inputs)[0], expected, 0);
  }
}

// --- normalisations of com.microsoft

TEST(SkipLayerNormalization, NormalisesTheSumAndGivesIt) {
  const Given x = random({2, 8}, 1), skip = random({2, 8}, 2), gamma = random({8}, 3), beta = random({8}, 4);
  const Given bias = random({8}, 5);
  const Inputs inputs{{"x", x}, {"s", skip}, {"g", gamma}, {"b", beta}, {"c", bias}};
  const std::string nodes = node("SkipLayerNormalization", "x s g b c", "y - - t",
                                 kMicrosoft + attribute("epsilon", "type: FLOAT f: 0.5"));
  // An output without a name is one that nobody asks for.
  onnx::ModelProto proto = parse(nodes, inputs, "y t", kNewest);
  const auto actual = results(proto, inputs);
  Values expected, sums;
  for (size_t row = 0; row < 2; ++row) {
    double mean = 0, variance = 0;
    for (size_t i = 0; i < 8; ++i) {
      sums.push_back(x.values[row * 8 + i] + skip.values[row * 8 + i] + bias.values[i]);
      mean += sums.back() / 8;
    }
    for (size_t i = 0; i < 8; ++i) variance += std::pow(sums[row * 8 + i] - mean, 2) / 8;
    for (size_t i = 0; i < 8; ++i)
      expected.push_back((sums[row * 8 + i] - mean) / std::sqrt(variance + 0.5) * gamma.values[i] +
                         beta.values[i]);
  }
  expect_near(actual[0], expected, 1e-5);
  expect_near(actual[1], sums, 1e-6);
}

}  // namespace
}  // namespace gantry
