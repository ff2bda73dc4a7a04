// Random numbers: their statistics, and that they follow from the seed.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <sstream>

#include "tests/onnx/model_text.h"

namespace gantry {
namespace {

using namespace model_text;  // NOLINT

constexpr int64_t kCount = 40000;

struct Moments {
  double mean = 0, variance = 0, skew = 0, kurtosis = 0;
};
Moments moments(const std::vector<double>& values) {
  Moments m;
  const auto n = static_cast<double>(values.size());
  for (double v : values) m.mean += v / n;
  for (double v : values) m.variance += std::pow(v - m.mean, 2) / n;
  for (double v : values) {
    m.skew += std::pow((v - m.mean) / std::sqrt(m.variance), 3) / n;
    m.kurtosis += std::pow((v - m.mean) / std::sqrt(m.variance), 4) / n;
  }
  return m;
}
double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const Moments x = moments(a), y = moments(b);
  double total = 0;
  for (size_t i = 0; i < a.size(); ++i) total += (a[i] - x.mean) * (b[i] - y.mean);
  return total / static_cast<double>(a.size()) / std::sqrt(x.variance * y.variance);
}

std::vector<std::vector<double>> drawn(const std::string& nodes, const std::string& outputs,
                                       const Inputs& inputs = {}) {
  return results(parse(nodes, inputs, outputs, kNewest), inputs);
}
std::string seed(double value) {
  return attribute("seed", fmt::format("type: FLOAT f: {}", value));
}
const std::string kShape = attribute("shape", fmt::format("type: INTS ints: [4, {}]", kCount / 4));

// Tolerances: five standard deviations of the estimate.
TEST(Random, UniformNumbersHaveTheMomentsOfTheirInterval) {
  const auto y = drawn(
      node("RandomUniform", "", "y",
           kShape + seed(1) + attribute("low", "type: FLOAT f: -1") + attribute("high", "type: FLOAT f: 3")),
      "y")[0];
  const Moments m = moments(y);
  EXPECT_NEAR(m.mean, 1, 5 * std::sqrt(16.0 / 12 / kCount));
  EXPECT_NEAR(m.variance, 16.0 / 12, 0.03);
  EXPECT_NEAR(m.skew, 0, 0.06);
  EXPECT_NEAR(m.kurtosis, 1.8, 0.06);
  for (double v : y) ASSERT_TRUE(v >= -1 && v < 3) << v;
  // As many in each tenth: chi squared with 9 degrees of freedom is above 33.7 once in ten thousand times.
  std::vector<int> tenths(10);
  for (double v : y) ++tenths[static_cast<size_t>((v + 1) / 0.4)];
  double chi = 0;
  for (int count : tenths) chi += std::pow(count - kCount / 10.0, 2) / (kCount / 10.0);
  EXPECT_LT(chi, 33.7);
}

TEST(Random, NormalNumbersHaveTheMomentsOfTheBell) {
  const Moments m = moments(drawn(
      node("RandomNormal", "", "y",
           kShape + seed(2) + attribute("mean", "type: FLOAT f: 5") + attribute("scale", "type: FLOAT f: 2")),
      "y")[0]);
  EXPECT_NEAR(m.mean, 5, 5 * 2 / std::sqrt(kCount));
  EXPECT_NEAR(m.variance, 4, 5 * 4 * std::sqrt(2.0 / kCount));
  EXPECT_NEAR(m.skew, 0, 5 * std::sqrt(6.0 / kCount));
  EXPECT_NEAR(m.kurtosis, 3, 5 * std::sqrt(24.0 / kCount));
}

TEST(Random, NumbersFollowFromTheSeedAndNodesWithoutOneDiffer) {
  const auto y = drawn(node("RandomUniform", "", "a", kShape + seed(1)) +
                           node("RandomUniform", "", "b", kShape + seed(1)) +
                           node("RandomUniform", "", "c", kShape + seed(2)) +
                           node("RandomUniform", "", "d", kShape) + node("RandomUniform", "", "e", kShape),
                       "a b c d e");
  EXPECT_EQ(y[0], y[1]);
  for (size_t i = 0; i < 5; ++i) {
    for (size_t j = std::max<size_t>(i + 1, 2); j < 5; ++j)
      EXPECT_NEAR(correlation(y[i], y[j]), 0, 5 / std::sqrt(kCount)) << i << " " << j;
  }
  // Neighbours do not depend on each other.
  const std::vector<double> shifted(y[0].begin() + 1, y[0].end()), first(y[0].begin(), y[0].end() - 1);
  EXPECT_NEAR(correlation(first, shifted), 0, 5 / std::sqrt(kCount));
}

/// Rows, one behind the other, that do not depend on each other.
void expect_independent(const std::vector<double>& all, size_t rows) {
  ASSERT_EQ(all.size() % rows, 0u);
  const auto length = static_cast<std::ptrdiff_t>(all.size() / rows);
  const auto row = [&](size_t at) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(at) * length;
    return std::vector<double>(begin, begin + length);
  };
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = i + 1; j < rows; ++j)
      EXPECT_NEAR(correlation(row(i), row(j)), 0, 5 / std::sqrt(length)) << i << " " << j;
  }
}
std::string body(const std::string& inputs, const std::string& nodes, const std::string& outputs) {
  std::string text = "type: GRAPH g { name: 'b' ";
  std::istringstream words(inputs);
  for (std::string word; words >> word;) text += fmt::format("input {{ name: '{}' }} ", word);
  return attribute("body", text + nodes + output_list(outputs) + "}");
}

TEST(Random, TurnsOfALoopDrawNumbersOfTheirOwnInEveryRunTheSame) {
  const std::string shape = attribute("shape", fmt::format("type: INTS ints: [{}]", kCount / 4));
  const std::string three = "initializer { name: 'three' data_type: 7 int64_data: 3 } ";
  const Inputs x{{"x", {{3}, {0, 0, 0}}}};
  for (const std::string& given : {std::string(), seed(6)}) {
    const std::string draw = node("RandomUniform", "", "r", shape + given);
    const std::string loop = three + node("Loop", "three -", "rows", body("i c", draw, "c r"));
    const auto rows = drawn(loop, "rows")[0];
    expect_independent(rows, 3);
    EXPECT_EQ(drawn(loop, "rows")[0], rows);
    const std::string inner = node("Loop", "three -", "q", body("j d", draw, "d r"));
    expect_independent(drawn(three + node("Loop", "three -", "rows", body("i c", inner, "c q")), "rows")[0],
                       9);
    // Written out, a step each.
    const std::string scan = node("Scan", "x", "rows", body("e", draw, "r") + integer("num_scan_inputs", 1));
    expect_independent(drawn(scan, "rows", x)[0], 3);
  }
}

TEST(Random, BernoulliIsOneAsOftenAsItsInputSays) {
  const Inputs p{{"p", {{kCount}, std::vector<double>(kCount, 0.3)}}};
  const auto y = drawn(node("Bernoulli", "p", "y", seed(3)), "y", p)[0];
  for (double v : y) ASSERT_TRUE(v == 0 || v == 1);
  EXPECT_NEAR(moments(y).mean, 0.3, 5 * std::sqrt(0.21 / kCount));
}

TEST(Random, MultinomialDrawsClassesByTheirLogarithms) {
  const Inputs logs{{"p", {{1, 3}, {std::log(0.2), std::log(0.5), std::log(0.3)}}}};
  const auto y = drawn(node("Multinomial", "p", "y", seed(4) + integer("sample_size", kCount)), "y", logs)[0];
  std::vector<double> share(3);
  for (double v : y) share.at(static_cast<size_t>(v)) += 1.0 / kCount;
  expect_near(share, {0.2, 0.5, 0.3}, 0.0125);
}

TEST(Random, DropoutInTrainingKeepsTheMeanAndSaysWhatItDropped) {
  const Inputs x{{"x", {{kCount}, std::vector<double>(kCount, 1)}}};
  const std::string train =
      "initializer { name: 'ratio' data_type: 1 float_data: 0.25 } "
      "initializer { name: 'train' data_type: 9 int32_data: 1 } ";
  const auto y = drawn(train + node("Dropout", "x ratio train", "y mask", integer("seed", 5)) +
                           node("Cast", "mask", "kept", integer("to", 1)),
                       "y kept", x);
  for (size_t i = 0; i < y[0].size(); ++i) ASSERT_NEAR(y[0][i], y[1][i] / 0.75, 1e-6);
  EXPECT_NEAR(moments(y[1]).mean, 0.75, 5 * std::sqrt(0.1875 / kCount));
}

TEST(Random, DropoutWithASeedDropsWhatNumPysRandomStateWould) {
  // numpy.random.RandomState(7).uniform(size=700) >= 0.5: 337 of them, more than one round of the generator's
  // state.
  const std::string first = "0101111000110001001011011011100000011010",
                    last = "0110001011100000010000101100110101111100";
  const Inputs x{{"x", {{700}, std::vector<double>(700, 1)}}};
  const std::string train =
      "initializer { name: 'ratio' data_type: 1 float_data: 0.5 } "
      "initializer { name: 'train' data_type: 9 int32_data: 1 } ";
  const auto y = drawn(train + node("Dropout", "x ratio train", "y", integer("seed", 7)), "y", x)[0];
  std::string kept;
  for (double v : y) kept += v != 0 ? '1' : '0';
  EXPECT_EQ(kept.substr(0, 40), first);
  EXPECT_EQ(kept.substr(660), last);
  EXPECT_EQ(std::count(kept.begin(), kept.end(), '1'), 337);
}

}  // namespace
}  // namespace gantry
