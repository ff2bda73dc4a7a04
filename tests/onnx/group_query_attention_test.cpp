// GroupQueryAttention of com.microsoft, against float64 loops after its definition.
#include <gmock/gmock.h>

#include <cmath>
#include <complex>

#include "host/support/error.h"
#include "tests/onnx/composed_ops.h"

namespace gantry {
namespace {

using namespace composed_ops;  // NOLINT

TEST(GroupQueryAttention, ASequenceAttendsWhatItHasAndTheWindowLeaves) {
  constexpr size_t kBatch = 2, kHeads = 4, kKeyHeads = 2, kSize = 4, kPast = 5;
  const Given query = random({kBatch, 1, kHeads * kSize}, 1), key = random({kBatch, 1, kKeyHeads * kSize}, 2);
  const Given value = random({kBatch, 1, kKeyHeads * kSize}, 3);
  const Given past_key = random({kBatch, kKeyHeads, kPast, kSize}, 4);
  const Given past_value = random({kBatch, kKeyHeads, kPast, kSize}, 5);
  const Values lengths{5, 3};  // with the new one, less one: 5 and 3 before it
  const Inputs inputs{{"q", query}, {"k", key}, {"v", value}, {"pk", past_key}, {"pv", past_value}};
  for (int64_t window : {-1, 3}) {
    const std::string nodes =
        "initializer { name: 'lengths' dims: 2 data_type: 6 int32_data: [5, 3] } "
        "initializer { name: 'total' data_type: 6 int32_data: 6 } " +
        node("GroupQueryAttention", "q k v pk pv lengths total", "y",
             kMicrosoft + integer("num_heads", kHeads) + integer("kv_num_heads", kKeyHeads) +
                 integer("local_window_size", window));
    const auto actual = results(parse(nodes, inputs, "y", kNewest), inputs)[0];
    Values expected;
    for (size_t b = 0; b < kBatch; ++b) {
      const auto before = static_cast<size_t>(lengths[b]);
      const size_t first = window > 0 ? before + 1 - static_cast<size_t>(window) : 0;
      for (size_t h = 0; h < kHeads; ++h) {
        const size_t g = h / (kHeads / kKeyHeads);
        std::vector<const double*> keys, values;
        for (size_t j = first; j < before; ++j) {
          keys.push_back(&past_key.values[((b * kKeyHeads + g) * kPast + j) * kSize]);
          values.push_back(&past_value.values[((b * kKeyHeads + g) * kPast + j) * kSize]);
        }
        keys.push_back(&key.values[(b * kKeyHeads + g) * kSize]);
        values.push_back(&value.values[(b * kKeyHeads + g) * kSize]);
        const Values row = attended(&query.values[(b * kHeads + h) * kSize], keys, values, kSize, 0.5);
        expected.insert(expected.end(), row.begin(), row.end());
      }
    }
    expect_near(actual, expected, 1e-5);
  }
}

TEST(GroupQueryAttention, ASequenceOfABatchMayBeShorterThanItsQueriesBeforeThereIsACache) {
  constexpr size_t kBatch = 2, kLength = 3, kSize = 4;
  const Given query = random({kBatch, kLength, kSize}, 1), key = random({kBatch, kLength, kSize}, 2);
  const Given value = random({kBatch, kLength, kSize}, 3);
  const Given none{{kBatch, 1, 0, kSize}, {}};  // declared with a 0, which is any size
  const Inputs inputs{{"q", query}, {"k", key}, {"v", value}, {"pk", none}, {"pv", none}};
  const size_t lengths[] = {2, 3};
  const std::string nodes =
      "initializer { name: 'lengths' dims: 2 data_type: 6 int32_data: [1, 2] } "
      "initializer { name: 'total' data_type: 6 int32_data: 3 } " +
      node("GroupQueryAttention", "q k v pk pv lengths total", "y",
           kMicrosoft + integer("num_heads", 1) + integer("kv_num_heads", 1));
  const auto actual = results(parse(nodes, inputs, "y", kNewest), inputs)[0];
  ASSERT_EQ(actual.size(), query.values.size());
  for (size_t b = 0; b < kBatch; ++b) {
    std::vector<const double*> keys, values;
    for (size_t i = 0; i < lengths[b]; ++i) {
      const size_t row = (b * kLength + i) * kSize;
      keys.push_back(&key.values[row]);
      values.push_back(&value.values[row]);
      expect_near({&actual[row], &actual[row] + kSize},
                  attended(&query.values[row], keys, values, kSize, 0.5), 1e-5);
    }
  }
}

TEST(GroupQueryAttention, WithoutACausalMaskASequenceAttendsAllThatItHas) {
  constexpr size_t kBatch = 2, kLength = 3, kSize = 4;
  const Given query = random({kBatch, kLength, kSize}, 1), key = random({kBatch, kLength, kSize}, 2);
  const Given value = random({kBatch, kLength, kSize}, 3);
  const Inputs inputs{{"q", query}, {"k", key}, {"v", value}};
  const size_t lengths[] = {2, 3};
  const std::string given =
      "initializer { name: 'lengths' dims: 2 data_type: 6 int32_data: [1, 2] } "
      "initializer { name: 'total' data_type: 6 int32_data: 3 } ";
  const std::string attributes =
      kMicrosoft + integer("num_heads", 1) + integer("kv_num_heads", 1) + integer("causal", 0);
  const std::string nodes = given + node("GroupQueryAttention", "q k v - - lengths total", "y", attributes);
  Values expected;
  for (size_t b = 0; b < kBatch; ++b) {
    std::vector<const double*> keys, values;
    for (size_t i = 0; i < lengths[b]; ++i) {
      keys.push_back(&key.values[(b * kLength + i) * kSize]);
      values.push_back(&value.values[(b * kLength + i) * kSize]);
    }
    for (size_t i = 0; i < kLength; ++i) {
      const Values row = attended(&query.values[(b * kLength + i) * kSize], keys, values, kSize, 0.5);
      expected.insert(expected.end(), row.begin(), row.end());
    }
  }
  expect_near(results(parse(nodes, inputs, "y", kNewest), inputs)[0], expected, 1e-5);
  const std::string windowed = given + node("GroupQueryAttention", "q k v - - lengths total", "y",
                                            attributes + integer("local_window_size", 2));
  EXPECT_THROW(results(parse(windowed, inputs, "y", kNewest), inputs), Error);
}

TEST(GroupQueryAttention, AChunkOfQueriesMayEndBeforeItsPadding) {
  constexpr size_t kBatch = 2, kLength = 2, kSize = 4, kPast = 4;
  const Given query = random({kBatch, kLength, kSize}, 1), key = random({kBatch, kLength, kSize}, 2);
  const Given value = random({kBatch, kLength, kSize}, 3);
  const Given past_key = random({kBatch, 1, kPast, kSize}, 4),
              past_value = random({kBatch, 1, kPast, kSize}, 5);
  const Inputs inputs{{"q", query},     {"k", key},         {"v", value},
                      {"pk", past_key}, {"pv", past_value}, {"counts", {{kBatch}, {2, 1}, DType::kI32}}};
  const size_t counts[] = {2, 1}, before[] = {3, 2};
  const std::string nodes =
      "initializer { name: 'lengths' dims: 2 data_type: 6 int32_data: [4, 2] } "
      "initializer { name: 'total' data_type: 6 int32_data: 6 } " +
      node("GroupQueryAttention", "q k v pk pv lengths total - - - - - - - - - counts", "y cache",
           kMicrosoft + integer("num_heads", 1) + integer("kv_num_heads", 1));
  const auto actual = results(parse(nodes, inputs, "y cache", kNewest), inputs);
  ASSERT_EQ(actual[0].size(), query.values.size());
  ASSERT_EQ(actual[1].size(), kBatch * (kPast + kLength) * kSize);
  for (size_t b = 0; b < kBatch; ++b) {
    std::vector<const double*> keys, values;
    for (size_t i = 0; i < before[b]; ++i) {
      keys.push_back(&past_key.values[(b * kPast + i) * kSize]);
      values.push_back(&past_value.values[(b * kPast + i) * kSize]);
    }
    for (size_t i = 0; i < counts[b]; ++i) {
      const size_t row = (b * kLength + i) * kSize;
      keys.push_back(&key.values[row]);
      values.push_back(&value.values[row]);
      expect_near({&actual[0][row], &actual[0][row] + kSize},
                  attended(&query.values[row], keys, values, kSize, 0.5), 1e-5);
    }
    for (size_t i = 0; i < keys.size(); ++i) {
      const double* row = &actual[1][(b * (kPast + kLength) + i) * kSize];
      expect_near({row, row + kSize}, {keys[i], keys[i] + kSize}, 0);
    }
  }
}

TEST(GroupQueryAttention, ASinkTakesItsPartOfTheWeights) {
  constexpr size_t kHeads = 2, kSize = 4, kLength = 3;
  const Given query = random({1, kLength, kHeads * kSize}, 1), key = random({1, kLength, kSize}, 2);
  const Given value = random({1, kLength, kSize}, 3);
  const Inputs inputs{{"q", query}, {"k", key}, {"v", value}};
  const double sinks[] = {0.5, -1.5};
  for (const bool given : {true, false}) {
    Values expected;
    for (size_t i = 0; i < kLength; ++i) {
      for (size_t h = 0; h < kHeads; ++h) {
        std::vector<const double*> keys, values;
        for (size_t j = 0; j <= i; ++j) {
          keys.push_back(&key.values[j * kSize]);
          values.push_back(&value.values[j * kSize]);
        }
        const double* row = &query.values[(i * kHeads + h) * kSize];
        const Values result = attended(row, keys, values, kSize, 0.5, given ? sinks[h] : 0);
        expected.insert(expected.end(), result.begin(), result.end());
      }
    }
    const std::string nodes =
        "initializer { name: 'lengths' dims: 1 data_type: 6 int32_data: [2] } "
        "initializer { name: 'total' data_type: 6 int32_data: 3 } "
        "initializer { name: 'sinks' dims: 2 data_type: 1 float_data: [0.5, -1.5] } " +
        node("GroupQueryAttention",
             given ? "q k v - - lengths total - - - - sinks" : "q k v - - lengths total", "y",
             kMicrosoft + integer("num_heads", kHeads) + integer("kv_num_heads", 1) +
                 integer("smooth_softmax", 1));
    expect_near(results(parse(nodes, inputs, "y", kNewest), inputs)[0], expected, 1e-5);
  }
}

TEST(GroupQueryAttention, ScoresAndWeightsAreOnnxRuntimes) {
  const Inputs inputs{{"q", random({2, 1, 16}, 1)},    {"k", random({2, 1, 8}, 2)},
                      {"v", random({2, 1, 8}, 3)},     {"pk", random({2, 1, 3, 8}, 4)},
                      {"pv", random({2, 1, 3, 8}, 5)}, {"bias", random({1, 1, 1, 4}, 6)}};
  const auto of_mode = [&](int64_t mode) {
    const std::string nodes =
        "initializer { name: 'lengths' dims: 2 data_type: 6 int32_data: [3, 1] } "
        "initializer { name: 'total' data_type: 6 int32_data: 4 } "
        "initializer { name: 'sinks' dims: 2 data_type: 1 float_data: [0.5, -1] } " +
        node("GroupQueryAttention", "q k v pk pv lengths total - - - bias sinks", "y pk2 pv2 qk",
             kMicrosoft + integer("num_heads", 2) + integer("kv_num_heads", 1) + integer("qk_output", mode) +
                 attribute("softcap", "type: FLOAT f: 2"));
    return results(parse(nodes, inputs, "qk", kNewest), inputs)[0];
  };
  // What ONNX Runtime 1.32 computes.
  expect_near(
      of_mode(1),
      {-0.9416743, 0.89570415, 0.71289766, -1.8841236, -2.864051, 0.8957797, 1.6709838, -0.18025208,  //
       -0.82193124, 0.41132727, 0, 0, -0.53755146, 0.63724554, 0, 0},
      1e-5);
  expect_near(
      of_mode(2),
      {0.05838279, 0.36664703, 0.30539107, 0.02275016, 0.00631878, 0.2713358, 0.58907956, 0.0925108,  //
       0.12220376, 0.41945168, 0, 0, 0.20545585, 0.6651604, 0, 0},
      1e-5);
  try {
    of_mode(0);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("its qk_output should be 1 or 2, not 0"));
  }
}

/// A head's features with a mean square of 1, weighted, and turned by `angle`, as their halves are a complex
/// number each.
Values normalised_and_turned(const double* x, const Values& weights, double epsilon, double angle) {
  const size_t size = weights.size(), half = size / 2;
  double power = 0;
  for (size_t i = 0; i < size; ++i) power += x[i] * x[i] / static_cast<double>(size);
  Values y(size);
  for (size_t i = 0; i < half; ++i) {
    const double root = std::sqrt(power + epsilon);
    const std::complex<double> pair(x[i] / root * weights[i], x[half + i] / root * weights[half + i]);
    const std::complex<double> turned = pair * std::polar(1.0, angle * static_cast<double>(i + 1));
    y[i] = turned.real();
    y[half + i] = turned.imag();
  }
  return y;
}

TEST(GroupQueryAttention, QueriesAndKeysAreNormalisedBeforeTheyTurn) {
  constexpr size_t kHeads = 2, kSize = 4, kLength = 3, kWidth = (kHeads + 2) * kSize;
  const Given packed = random({1, kLength, kWidth}, 1);
  const Values query_weights{0.5, -1, 2, 1.5}, key_weights{1, 3, -0.5, 0.25};
  Given cosines{{kLength, kSize / 2}, {}}, sines = cosines;
  for (size_t i = 0; i < kLength; ++i) {
    for (size_t pair = 1; pair <= kSize / 2; ++pair) {
      cosines.values.push_back(std::cos(0.3 * static_cast<double>(i * pair)));
      sines.values.push_back(std::sin(0.3 * static_cast<double>(i * pair)));
    }
  }
  const Inputs inputs{{"x", packed}, {"c", cosines}, {"s", sines}};
  const std::string constant =
      "initializer { name: 'lengths' dims: 1 data_type: 6 int32_data: [2] } "
      "initializer { name: 'total' data_type: 6 int32_data: 3 } " +
      constants("qw", {{kSize}, query_weights}) + constants("kw", {{kSize}, key_weights});
  const std::string heads =
      kMicrosoft + integer("num_heads", kHeads) + integer("kv_num_heads", 1) + integer("do_rotary", 1);
  const auto with = [&](const std::string& norms, const std::string& attributes) {
    return results(
        parse(constant + node("GroupQueryAttention", "x - - - - lengths total c s - - - - - " + norms,
                              "y present", heads + attributes),
              inputs, "y present", kNewest),
        inputs);
  };
  struct Case {
    std::string attributes;
    double query_epsilon, key_epsilon;
  };
  const std::string common = attribute("qk_norm_epsilon", "type: FLOAT f: 0.25"),
                    own = attribute("k_norm_epsilon", "type: FLOAT f: 2");
  for (const Case& c : {Case{"", 1e-6, 1e-6}, Case{common, 0.25, 0.25}, Case{common + own, 0.25, 2}}) {
    SCOPED_TRACE(c.attributes);
    Values expected, present;
    std::vector<Values> kept;
    std::vector<const double*> values;
    for (size_t i = 0; i < kLength; ++i) {
      const double *row = &packed.values[i * kWidth], angle = 0.3 * static_cast<double>(i);
      kept.push_back(normalised_and_turned(row + kHeads * kSize, key_weights, c.key_epsilon, angle));
      present.insert(present.end(), kept.back().begin(), kept.back().end());
      values.push_back(row + (kHeads + 1) * kSize);
      std::vector<const double*> keys;
      for (const Values& key : kept) keys.push_back(key.data());
      for (size_t h = 0; h < kHeads; ++h) {
        const Values query = normalised_and_turned(row + h * kSize, query_weights, c.query_epsilon, angle);
        const Values result = attended(query.data(), keys, values, kSize, 0.5);
        expected.insert(expected.end(), result.begin(), result.end());
      }
    }
    const auto actual = with("qw kw", c.attributes);
    expect_near(actual[0], expected, 1e-5);
    expect_near(actual[1], present, 1e-5);
  }
  for (const auto& [norms, message] : {std::pair("qw -", "has q_norm_weight but not k_norm_weight"),
                                       std::pair("qw total", "its weights () of a norm")}) {
    try {
      with(norms, "");
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(message));
    }
  }
}

}  // namespace
}  // namespace gantry
