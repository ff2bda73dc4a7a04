// com.microsoft's LinearAttention and CausalConvWithState against float64 loops, which agree with ONNX
// Runtime's kernels for CPUs.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "host/support/error.h"
#include "tests/onnx/model_text.h"

namespace gantry {
namespace {

using namespace model_text;  // NOLINT

constexpr const char* kMicrosoft = "domain: 'com.microsoft' ";
using Values = std::vector<double>;

struct Heads {
  size_t queries, keys, values;
};
constexpr size_t kSteps = 3, kKey = 4, kValue = 6;

struct Attended {
  Values output, state;
};

/// The gated delta rule on one sequence, a step after the other.
Attended attended(const Heads& heads, const Inputs& inputs) {
  const Values &query = inputs[0].second.values, &key = inputs[1].second.values,
               &value = inputs[2].second.values, &decay = inputs[4].second.values,
               &rate = inputs[5].second.values;
  Attended result{{}, inputs[3].second.values};
  Values& state = result.state;
  const size_t all = std::max(heads.queries, heads.values);
  for (size_t t = 0; t < kSteps; ++t) {
    for (size_t h = 0; h < heads.values; ++h) {
      double* s = &state[h * kKey * kValue];
      const double* k = &key[(t * heads.keys + h * heads.keys / heads.values) * kKey];
      const double* v = &value[(t * heads.values + h) * kValue];
      for (size_t i = 0; i < kKey * kValue; ++i) s[i] *= std::exp(decay[t * heads.values + h]);
      for (size_t e = 0; e < kValue; ++e) {
        double seen = 0;
        for (size_t d = 0; d < kKey; ++d) seen += s[d * kValue + e] * k[d];
        for (size_t d = 0; d < kKey; ++d)
          s[d * kValue + e] += rate[t * heads.values + h] * k[d] * (v[e] - seen);
      }
    }
    for (size_t h = 0; h < all; ++h) {
      const double* s = &state[h * heads.values / all * kKey * kValue];
      const double* q = &query[(t * heads.queries + h * heads.queries / all) * kKey];
      for (size_t e = 0; e < kValue; ++e) {
        double total = 0;
        for (size_t d = 0; d < kKey; ++d) total += q[d] * s[d * kValue + e] / 2;  // the root of kKey
        result.output.push_back(total);
      }
    }
  }
  return result;
}

Inputs attention_inputs(const Heads& heads) {
  const auto packed = [](size_t count, size_t size, uint64_t seed) {
    return random({1, kSteps, static_cast<int64_t>(count * size)}, seed);
  };
  Inputs inputs{{"q", packed(heads.queries, kKey, 1)},
                {"k", packed(heads.keys, kKey, 2)},
                {"v", packed(heads.values, kValue, 3)},
                {"s", random({1, static_cast<int64_t>(heads.values), kKey, kValue}, 4)},
                {"g", packed(heads.values, 1, 5)},
                {"b", packed(heads.values, 1, 6)}};
  for (double& v : inputs[1].second.values) v /= 4;
  for (double& v : inputs[4].second.values) v = -std::abs(v);
  for (double& v : inputs[5].second.values) v = std::abs(v) / 2;
  return inputs;
}

std::string attention_node(const Heads& heads, const std::string& rest = "") {
  return node("LinearAttention", "q k v s g b", "y z",
              kMicrosoft + integer("q_num_heads", static_cast<int64_t>(heads.queries)) +
                  integer("kv_num_heads", static_cast<int64_t>(heads.values)) + rest);
}

TEST(MicrosoftLinearAttention, HeadsOfQueriesAndKeysMayBeSharedByThoseOfValues) {
  for (const Heads& heads : {Heads{2, 2, 2}, {4, 2, 2}, {2, 4, 4}, {2, 2, 4}}) {
    SCOPED_TRACE(fmt::format("{} {} {}", heads.queries, heads.keys, heads.values));
    const Inputs inputs = attention_inputs(heads);
    const Attended expected = attended(heads, inputs);
    const auto actual = results(parse(attention_node(heads), inputs, "y z", kNewest), inputs);
    expect_near(actual[0], expected.output, 1e-5);
    expect_near(actual[1], expected.state, 1e-5);
  }
}

TEST(MicrosoftLinearAttention, WhatIsNotTakenIsToldByName) {
  const auto error_of = [](const Heads& heads, const std::string& rest) -> std::string {
    const Inputs inputs = attention_inputs(heads);
    try {
      results(parse(attention_node(heads, rest), inputs, "y z", kNewest), inputs);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(error_of({2, 2, 2}, integer("state_window", 2)), ::testing::HasSubstr("state_window"));
  EXPECT_THAT(error_of({2, 2, 3}, ""),
              ::testing::HasSubstr("2 heads of queries and 3 heads of values do not share each other"));
  EXPECT_THAT(error_of({2, 3, 4}, ""),
              ::testing::HasSubstr("3 heads of queries or keys are not shared by 4 heads"));
}

/// The error of importing what attends, with the shapes of decays and betas.
std::string error_with_gates(const std::vector<int64_t>& decay, const std::vector<int64_t>& beta) {
  const Heads heads{2, 2, 2};
  Inputs inputs = attention_inputs(heads);
  inputs[4].second = random(decay, 5);
  inputs[5].second = random(beta, 6);
  try {
    import_onnx_bytes(parse(attention_node(heads), inputs, "y z", kNewest).SerializeAsString(), ".");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    return error.what();
  }
  return "no error";
}

TEST(MicrosoftLinearAttention, DecaysAndBetasHaveTheKeysExtents) {
  using ::testing::HasSubstr;
  EXPECT_EQ(error_with_gates({1, kSteps, 2}, {1, kSteps, 2}), "no error");
  EXPECT_EQ(error_with_gates({1, kSteps, 2 * kKey}, {1, kSteps, 1}), "no error");
  EXPECT_THAT(error_with_gates({1, 1, 2}, {1, kSteps, 2}),
              HasSubstr("steps of keys and decays: 3 and 1 differ"));
  EXPECT_THAT(error_with_gates({2, kSteps, 2}, {1, kSteps, 2}),
              HasSubstr("sequences of keys and decays: 1 and 2 differ"));
  EXPECT_THAT(error_with_gates({1, kSteps, 4}, {1, kSteps, 2}),
              HasSubstr("features of decays: 2 is neither 1 nor that of keys, 4"));
  EXPECT_THAT(error_with_gates({1, kSteps, 2}, {1, 2, 2}),
              HasSubstr("steps of keys and betas: 3 and 2 differ"));
  EXPECT_THAT(error_with_gates({1, kSteps, 2}, {1, kSteps, 3}),
              HasSubstr("heads of betas: 3 is neither 1 nor that of keys, 2"));
}

/// Whether all constraints hold for these sizes.
bool takes(const Graph& graph, const std::map<std::string, int64_t>& sizes) {
  return std::ranges::all_of(graph.main.constraints, [&](const DimConstraint& c) {
    return c.left.evaluate(sizes) == c.right.evaluate(sizes);
  });
}

TEST(MicrosoftLinearAttention, OpenExtentsOfDecaysAndBetasAreThoseOfKeys) {
  const std::string inputs = open_input("q", "1 T 8") + open_input("k", "1 T 8") + open_input("v", "1 T 12") +
                             open_input("s", "1 2 4 6") + open_input("g", "1 U F") + open_input("b", "1 V G");
  const Graph graph = imported_graph(inputs + attention_node({2, 2, 2}), "y z");
  const auto with = [](const std::string& name, int64_t size) {
    std::map<std::string, int64_t> sizes{{"T", 3}, {"U", 3}, {"V", 3}, {"F", 2}, {"G", 2}};
    sizes[name] = size;
    return sizes;
  };
  using Size = std::pair<const char*, int64_t>;
  for (const auto& [name, size] : {Size("T", 3), Size("F", 8), Size("G", 1)})
    EXPECT_TRUE(takes(graph, with(name, size))) << name << " " << size;
  for (const auto& [name, size] : {Size("U", 1), Size("V", 2), Size("F", 4), Size("F", 3), Size("G", 3)})
    EXPECT_FALSE(takes(graph, with(name, size))) << name << " " << size;
}

constexpr size_t kBatch = 2, kChannels = 4, kLength = 5, kWindow = 3;

/// (batch, positions, channels) as (batch, channels, positions).
Values channels_second(const Values& x, size_t positions) {
  Values y;
  for (size_t b = 0; b < kBatch; ++b)
    for (size_t c = 0; c < kChannels; ++c)
      for (size_t t = 0; t < positions; ++t) y.push_back(x[(b * positions + t) * kChannels + c]);
  return y;
}

TEST(MicrosoftCausalConv, WindowsMayBeDilatedAndChannelsLast) {
  for (const size_t dilation : {1, 2}) {
    const size_t before = (kWindow - 1) * dilation;
    for (const size_t axes : {0, 1, 2}) {  // of channels that are last; 0: they are not
      SCOPED_TRACE(fmt::format("dilation {} axes {}", dilation, axes));
      const auto shape = [&](size_t positions) -> std::vector<int64_t> {
        const auto length = static_cast<int64_t>(positions);
        if (axes == 0) return {kBatch, kChannels, length};
        if (axes == 1) return {kBatch, length, kChannels};
        return {kBatch, length, 2, kChannels / 2};
      };
      const Inputs inputs{{"x", random(shape(kLength), 1)},
                          {"w", random({kChannels, 1, kWindow}, 2)},
                          {"b", random({kChannels}, 3)},
                          {"p", random(shape(before), 4)}};
      const auto second = [&](const Values& x, size_t positions) {
        return axes == 0 ? x : channels_second(x, positions);
      };
      const Values data = second(inputs[0].second.values, kLength),
                   past = second(inputs[3].second.values, before);
      Values expected, state;
      for (size_t row = 0; row < kBatch * kChannels; ++row) {
        Values all(&past[row * before], &past[row * before] + before);
        all.insert(all.end(), &data[row * kLength], &data[row * kLength] + kLength);
        for (size_t t = 0; t < kLength; ++t) {
          double total = inputs[2].second.values[row % kChannels];
          for (size_t j = 0; j < kWindow; ++j)
            total += all[t + j * dilation] * inputs[1].second.values[row % kChannels * kWindow + j];
          expected.push_back(total / (1 + std::exp(-total)));
        }
        state.insert(state.end(), all.end() - static_cast<std::ptrdiff_t>(before), all.end());
      }
      const std::string nodes = node("CausalConvWithState", "x w b p", "y z",
                                     kMicrosoft + integer("dilation", static_cast<int64_t>(dilation)) +
                                         integer("channels_last", axes > 0 ? 1 : 0) +
                                         attribute("activation", "type: STRING s: 'silu'"));
      const auto actual = results(parse(nodes, inputs, "y z", kNewest), inputs);
      expect_near(second(actual[0], kLength), expected, 1e-5);
      expect_near(second(actual[1], before), state, 1e-6);
    }
  }
}

}  // namespace
}  // namespace gantry
