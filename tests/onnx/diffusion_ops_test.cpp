// Ops of com.microsoft that an optimiser of diffusion models writes, against float64 loops after their
// definitions.
#include <cmath>
#include <functional>

#include "tests/onnx/model_text.h"

namespace gantry {
namespace {

using namespace model_text;  // NOLINT

constexpr const char* kMicrosoft = "domain: 'com.microsoft' ";
constexpr size_t kBatch = 2, kChannels = 6, kHeight = 2, kWidth = 3, kGroups = 2;
using Values = std::vector<double>;

size_t at(size_t b, size_t c, size_t y, size_t x, bool last) {
  return last ? ((b * kHeight + y) * kWidth + x) * kChannels + c
              : ((b * kChannels + c) * kHeight + y) * kWidth + x;
}

std::vector<int64_t> image_shape(bool last) {
  return last ? std::vector<int64_t>{kBatch, kHeight, kWidth, kChannels}
              : std::vector<int64_t>{kBatch, kChannels, kHeight, kWidth};
}

using Element = std::function<void(size_t b, size_t c, size_t y, size_t x)>;

/// All elements of a group of channels.
void each_of_group(size_t b, size_t group, const Element& element) {
  for (size_t c = group * kChannels / kGroups; c < (group + 1) * kChannels / kGroups; ++c)
    for (size_t y = 0; y < kHeight; ++y)
      for (size_t x = 0; x < kWidth; ++x) element(b, c, y, x);
}
void each_group(const std::function<void(size_t b, size_t group)>& group) {
  for (size_t b = 0; b < kBatch; ++b)
    for (size_t g = 0; g < kGroups; ++g) group(b, g);
}

Values normalised(const Values& data, const Values& gamma, const Values& beta, bool last, bool silu) {
  constexpr double kCount = kChannels / kGroups * kHeight * kWidth;
  Values result(data.size());
  each_group([&](size_t b, size_t g) {
    double mean = 0, variance = 0;
    each_of_group(b, g, [&](auto... i) { mean += data[at(i..., last)] / kCount; });
    each_of_group(b, g, [&](auto... i) { variance += std::pow(data[at(i..., last)] - mean, 2) / kCount; });
    each_of_group(b, g, [&](size_t, size_t c, size_t y, size_t x) {
      const size_t i = at(b, c, y, x, last);
      const double v = (data[i] - mean) / std::sqrt(variance + 0.25) * gamma[c] + beta[c];
      result[i] = silu ? v / (1 + std::exp(-v)) : v;
    });
  });
  return result;
}

std::string attributes(bool last, bool silu) {
  // Channels are last where nothing is said.
  return kMicrosoft + integer("groups", kGroups) + integer("activation", silu ? 1 : 0) +
         attribute("epsilon", "type: FLOAT f: 0.25") + (last ? "" : integer("channels_last", 0));
}

TEST(GroupNorm, NormalisesGroupsOfChannelsOfBothLayouts) {
  for (const bool last : {true, false}) {
    for (const bool silu : {true, false}) {
      const Inputs inputs{
          {"x", random(image_shape(last), 1)}, {"g", random({kChannels}, 2)}, {"b", random({kChannels}, 3)}};
      const Values expected =
          normalised(inputs[0].second.values, inputs[1].second.values, inputs[2].second.values, last, silu);
      const std::string nodes = node("GroupNorm", "x g b", "y", attributes(last, silu));
      expect_near(results(parse(nodes, inputs, "y", kNewest), inputs)[0], expected, 1e-5);
    }
  }
}

TEST(SkipGroupNorm, NormalisesTheSumAndGivesIt) {
  const std::vector<int64_t> skips[] = {
      {kBatch, kHeight, kWidth, kChannels}, {kBatch, 1, 1, kChannels}, {kBatch, kChannels}};
  for (const std::vector<int64_t>& shape : skips) {
    for (const bool biased : {true, false}) {
      const Inputs inputs{{"x", random(image_shape(true), 1)},
                          {"g", random({kChannels}, 2)},
                          {"b", random({kChannels}, 3)},
                          {"s", random(shape, 4)},
                          {"c", random({kChannels}, 5)}};
      const Values &skip = inputs[3].second.values, &bias = inputs[4].second.values;
      Values sums = inputs[0].second.values;
      const bool whole = skip.size() == sums.size();
      each_group([&](size_t b, size_t g) {
        each_of_group(b, g, [&](size_t, size_t c, size_t y, size_t x) {
          const size_t i = at(b, c, y, x, true);
          sums[i] += skip[whole ? i : b * kChannels + c] + (biased ? bias[c] : 0);
        });
      });
      const std::string nodes =
          node("SkipGroupNorm", biased ? "x g b s c" : "x g b s", "y t", attributes(true, true));
      const auto actual = results(parse(nodes, inputs, "y t", kNewest), inputs);
      expect_near(actual[0], normalised(sums, inputs[1].second.values, inputs[2].second.values, true, true),
                  1e-5);
      expect_near(actual[1], sums, 1e-6);
    }
  }
}

TEST(BiasSplitGelu, TheSecondHalfIsTheGateOfTheFirst) {
  const Inputs inputs{{"x", random({2, 3, 8}, 1)}, {"b", random({8}, 2)}};
  Values expected;
  for (size_t row = 0; row < 6; ++row) {
    for (size_t i = 0; i < 4; ++i) {
      const auto with_bias = [&](size_t j) {
        return inputs[0].second.values[row * 8 + j] + inputs[1].second.values[j];
      };
      const double gate = with_bias(i + 4);
      expected.push_back(with_bias(i) * gate * 0.5 * (1 + std::erf(gate / std::sqrt(2.0))));
    }
  }
  const std::string nodes = node("BiasSplitGelu", "x b", "y", kMicrosoft);
  expect_near(results(parse(nodes, inputs, "y", kNewest), inputs)[0], expected, 1e-5);
}

TEST(BiasAdd, AddsABiasAndWhatSkipsALayer) {
  const Inputs inputs{{"x", random({2, 3, 4}, 1)}, {"b", random({4}, 2)}, {"s", random({2, 3, 4}, 3)}};
  Values expected;
  for (size_t i = 0; i < 24; ++i)
    expected.push_back(inputs[0].second.values[i] + inputs[1].second.values[i % 4] +
                       inputs[2].second.values[i]);
  expect_near(results(parse(node("BiasAdd", "x b s", "y", kMicrosoft), inputs, "y", kNewest), inputs)[0],
              expected, 1e-6);
}

TEST(NhwcConv, ChannelsOfDataAndWeightAreLast) {
  constexpr size_t kOutputs = 4, kKernel = 2, kOfGroup = kChannels / kGroups;
  const Inputs inputs{{"x", random(image_shape(true), 1)},
                      {"w", random({kOutputs, kKernel, kKernel, kOfGroup}, 2)},
                      {"b", random({kOutputs}, 3)}};
  Values expected;
  for (size_t b = 0; b < kBatch; ++b) {
    for (size_t x = 0; x + 1 < kWidth; ++x) {  // of one row
      for (size_t o = 0; o < kOutputs; ++o) {
        double total = inputs[2].second.values[o];
        for (size_t i = 0; i < kKernel; ++i)
          for (size_t j = 0; j < kKernel; ++j)
            for (size_t c = 0; c < kOfGroup; ++c)
              total +=
                  inputs[0].second.values[at(b, o / (kOutputs / kGroups) * kOfGroup + c, i, x + j, true)] *
                  inputs[1].second.values[((o * kKernel + i) * kKernel + j) * kOfGroup + c];
        expected.push_back(total);
      }
    }
  }
  const std::string nodes =
      node("NhwcConv", "x w b", "y",
           kMicrosoft + integer("group", kGroups) + attribute("kernel_shape", "type: INTS ints: [2, 2]"));
  expect_near(results(parse(nodes, inputs, "y", kNewest), inputs)[0], expected, 1e-4);
}

}  // namespace
}  // namespace gantry
