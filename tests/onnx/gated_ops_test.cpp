// Gates and norms of com.microsoft against float64 loops, which agree with ONNX Runtime's kernels for CPUs.
#include <gmock/gmock.h>

#include <cmath>

#include "host/support/error.h"
#include "tests/onnx/model_text.h"

namespace gantry {
namespace {

using namespace model_text;  // NOLINT

constexpr const char* kMicrosoft = "domain: 'com.microsoft' ";
constexpr size_t kRows = 6, kParts = 2, kSize = 4, kWidth = kParts * kSize;
using Values = std::vector<double>;

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
std::string number(const std::string& name, double value) {
  return attribute(name, fmt::format("type: FLOAT f: {}", value));
}
Values only_result(const std::string& nodes, const Inputs& inputs) {
  return results(parse(nodes, inputs, "y", kNewest), inputs)[0];
}

/// Each part of a row over the root of its mean square, times its scale.
Values normalised(const Values& x, const Values& scale) {
  Values y(x.size());
  for (size_t part = 0; part < x.size() / kSize; ++part) {
    double power = 0.25;
    for (size_t i = 0; i < kSize; ++i) power += std::pow(x[part * kSize + i], 2) / kSize;
    for (size_t i = 0; i < kSize; ++i)
      y[part * kSize + i] =
          x[part * kSize + i] / std::sqrt(power) * scale[(part % kParts * kSize + i) % scale.size()];
  }
  return y;
}

TEST(GatedRMSNorm, EachHeadIsNormalisedAndTheGateOpensIt) {
  const Inputs inputs{
      {"x", random({2, 3, kWidth}, 1)}, {"s", random({kSize}, 2)}, {"g", random({2, 3, kWidth}, 3)}};
  for (const std::string activation : {"silu", "swish", "sigmoid"}) {
    Values expected = normalised(inputs[0].second.values, inputs[1].second.values);
    for (size_t i = 0; i < expected.size(); ++i) {
      const double gate = inputs[2].second.values[i];
      expected[i] *= sigmoid(gate) * (activation == "sigmoid" ? 1 : gate);
    }
    const std::string nodes =
        node("GatedRMSNorm", "x s g", "y",
             kMicrosoft + number("epsilon", 0.25) +
                 attribute("activation", fmt::format("type: STRING s: '{}'", activation)));
    expect_near(only_result(nodes, inputs), expected, 1e-5);
  }
}

TEST(GatedRMSNorm, DataThatAreNotSoManyHeadsAreRefused) {
  const Inputs inputs{{"x", random({3, kWidth}, 1)}, {"s", random({3}, 2)}, {"g", random({3, kWidth}, 3)}};
  try {
    only_result(node("GatedRMSNorm", "x s g", "y", kMicrosoft), inputs);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("its data (3, 8) is not 2 times 3"));
  }
}

TEST(BranchwiseRMSNorm, BranchesAreAnAxisOrPartsOfOne) {
  const Values data = elements(kRows * kWidth, 1);
  for (const bool flat : {true, false}) {
    const std::vector<int64_t> shape =
        flat ? std::vector<int64_t>{2, 3, kWidth} : std::vector<int64_t>{2, 3, kParts, kSize};
    const std::string rest =
        kMicrosoft + number("epsilon", 0.25) + (flat ? integer("num_branches", kParts) : "");
    for (const std::vector<int64_t>& scale :
         {std::vector<int64_t>{kWidth}, {kParts, kSize}, {static_cast<int64_t>(kSize)}}) {
      const Inputs inputs{{"x", {shape, data}}, {"s", random(scale, 2)}};
      expect_near(only_result(node("BranchwiseRMSNorm", "x s", "y", rest), inputs),
                  normalised(data, inputs[1].second.values), 1e-5);
    }
    expect_near(only_result(node("BranchwiseRMSNorm", "x", "y", rest), {{"x", {shape, data}}}),
                normalised(data, {1}), 1e-5);
  }
}

TEST(LinearAttentionGate, GivesTheDecayAndTheRate) {
  const Inputs inputs{{"a", random({2, 3, kSize}, 1)},
                      {"t", random({kSize}, 2)},
                      {"d", random({kSize}, 3)},
                      {"b", random({2, 3, kSize}, 4)}};
  Values decay, rate;
  for (size_t i = 0; i < kRows * kSize; ++i) {
    const double a = inputs[0].second.values[i] + inputs[1].second.values[i % kSize];
    decay.push_back(inputs[2].second.values[i % kSize] * std::log1p(std::exp(a)));
    rate.push_back(sigmoid(inputs[3].second.values[i]));
  }
  const auto actual = results(
      parse(node("LinearAttentionGate", "a t d b", "y z", kMicrosoft), inputs, "y z", kNewest), inputs);
  expect_near(actual[0], decay, 1e-5);
  expect_near(actual[1], rate, 1e-6);
}

TEST(ScaledSiLU, AScaleOfItsOwnGoesBeforeTheAttribute) {
  const Inputs inputs{{"x", random({kRows, kSize}, 1)}, {"s", {{}, {-1.5}}}};
  for (const bool given : {true, false}) {
    Values expected;
    for (double v : inputs[0].second.values) {
      const double z = v * (given ? -1.5 : 0.5);
      expected.push_back(z * sigmoid(z));
    }
    const std::string nodes = node("ScaledSiLU", given ? "x s" : "x", "y", kMicrosoft + number("alpha", 0.5));
    expect_near(only_result(nodes, inputs), expected, 1e-5);
  }
}

TEST(MicrosoftSwiGLU, HalvesOfOneInputAreAsTwoAndBothAreLimited) {
  for (const double limit : {0.0, 0.75}) {
    const auto limited = [&](double v) { return limit > 0 ? std::min(v, limit) : v; };
    const Inputs two{{"g", random({kRows, kSize}, 1)}, {"u", random({kRows, kSize}, 2)}};
    Inputs one{{"g", {{kRows, 2 * kSize}, {}}}};
    Values expected;
    for (size_t row = 0; row < kRows; ++row) {
      for (const auto& [name, half] : two)
        one[0].second.values.insert(one[0].second.values.end(), &half.values[row * kSize],
                                    &half.values[row * kSize] + kSize);
      for (size_t i = row * kSize; i < (row + 1) * kSize; ++i) {
        const double gate = limited(two[0].second.values[i]), up = limited(two[1].second.values[i]);
        expected.push_back(gate * sigmoid(1.5 * gate) * ((limit > 0 ? std::max(up, -limit) : up) + 0.5));
      }
    }
    const std::string rest = kMicrosoft + number("limit", limit) + number("activation_alpha", 1.5) +
                             number("activation_beta", 0.5);
    expect_near(only_result(node("SwiGLU", "g u", "y", rest), two), expected, 1e-5);
    expect_near(only_result(node("SwiGLU", "g", "y", rest), one), expected, 1e-5);
  }
}

TEST(GatedAdd, AGateIsOfARow) {
  const Inputs inputs{
      {"x", random({2, 3, kSize}, 1)}, {"z", random({2, 3, kSize}, 2)}, {"g", random({2, 3, 1}, 3)}};
  Values expected;
  for (size_t i = 0; i < kRows * kSize; ++i)
    expected.push_back(inputs[0].second.values[i] +
                       inputs[1].second.values[i] * inputs[2].second.values[i / kSize]);
  expect_near(only_result(node("GatedAdd", "x z g", "y", kMicrosoft), inputs), expected, 1e-6);
}

}  // namespace
}  // namespace gantry
