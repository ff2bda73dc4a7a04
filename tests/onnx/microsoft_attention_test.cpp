// Attention and MultiHeadAttention of com.microsoft, against float64 loops after their definition.
#include <gmock/gmock.h>

#include "host/support/error.h"
#include "tests/onnx/composed_ops.h"

namespace gantry {
namespace {

using namespace composed_ops;  // NOLINT

TEST(MicrosoftAttention, AMaskOfTwoNumbersASequenceSaysWhereItsKeysEndAndBegin) {
  constexpr size_t kBatch = 2, kLength = 4, kSize = 4;
  const Given data = random({kBatch, kLength, kSize}, 1);
  const size_t ends[] = {3, 4}, begins[] = {1, 0};
  const Inputs inputs{{"x", data}, {"m", {{2 * kBatch}, {3, 4, 1, 0}, DType::kI32}}};
  std::string weight =
      "initializer { name: 'w' dims: 4 dims: 12 data_type: 1 ";  // query, key and value are x
  for (size_t i = 0; i < kSize * 3 * kSize; ++i)
    weight += fmt::format("float_data: {} ", i / 12 == i % 4 ? 1 : 0);
  const auto actual =
      results(parse(weight + "} " + node("Attention", "x w - m", "y", kMicrosoft + integer("num_heads", 1)),
                    inputs, "y", kNewest),
              inputs)[0];
  Values expected;
  for (size_t b = 0; b < kBatch; ++b) {
    std::vector<const double*> keys;
    for (size_t j = begins[b]; j < ends[b]; ++j) keys.push_back(&data.values[(b * kLength + j) * kSize]);
    for (size_t i = 0; i < kLength; ++i) {
      const Values row = attended(&data.values[(b * kLength + i) * kSize], keys, keys, kSize, 0.5);
      expected.insert(expected.end(), row.begin(), row.end());
    }
  }
  expect_near(actual, expected, 1e-5);
}

TEST(MicrosoftAttention, OfACacheThatItsResultIsWrittenIntoIsToldByName) {
  const auto cached = [](int64_t shares) {
    const Inputs inputs{
        {"x", random({1, 2, 4}, 1)}, {"w", random({4, 12}, 2)}, {"p", random({2, 1, 1, 3, 4}, 3)}};
    const std::string attributes =
        kMicrosoft + integer("num_heads", 1) + integer("past_present_share_buffer", shares);
    return results(parse(node("Attention", "x w - - p", "y z", attributes), inputs, "y z", kNewest), inputs);
  };
  EXPECT_EQ(cached(0)[1].size(), 2u * (3 + 2) * 4);
  try {
    cached(1);
    FAIL() << "the cache is taken for one that grows";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("past_present_share_buffer"));
  }
}

TEST(MultiHeadAttention, KeysThatTheMaskLeavesOutHaveNoWeight) {
  constexpr size_t kLength = 3, kKeys = 4, kHeads = 2, kSize = 4;
  const Given query = random({1, kLength, kHeads * kSize}, 1), key = random({1, kKeys, kHeads * kSize}, 2);
  const Given value = random({1, kKeys, kHeads * kSize}, 3);
  const Inputs inputs{{"q", query}, {"k", key}, {"v", value}, {"m", {{1, kKeys}, {1, 1, 0, 1}, DType::kI32}}};
  const std::string nodes =
      node("MultiHeadAttention", "q k v - m", "y", kMicrosoft + integer("num_heads", kHeads));
  const auto actual = results(parse(nodes, inputs, "y", kNewest), inputs)[0];
  Values expected;
  for (size_t i = 0; i < kLength; ++i) {
    for (size_t h = 0; h < kHeads; ++h) {
      std::vector<const double*> keys, values;
      for (size_t j : {size_t{0}, size_t{1}, size_t{3}}) {
        keys.push_back(&key.values[(j * kHeads + h) * kSize]);
        values.push_back(&value.values[(j * kHeads + h) * kSize]);
      }
      const Values row = attended(&query.values[(i * kHeads + h) * kSize], keys, values, kSize, 0.5);
      expected.insert(expected.end(), row.begin(), row.end());
    }
  }
  expect_near(actual, expected, 1e-5);
}

TEST(MultiHeadAttention, UnpacksQueryKeyAndValue) {
  constexpr size_t kLength = 3, kHeads = 2, kSize = 4;
  const Given packed = random({1, kLength, kHeads, 3, kSize}, 1);
  // (head, part) of a row.
  const auto row_of = [&](size_t i, size_t h, size_t part) {
    return &packed.values[((i * kHeads + h) * 3 + part) * kSize];
  };
  Given query{{1, kLength, kHeads * kSize}, {}}, rest{{1, kLength, kHeads, 2, kSize}, {}};
  Values expected;
  for (size_t i = 0; i < kLength; ++i) {
    for (size_t h = 0; h < kHeads; ++h) {
      std::vector<const double*> keys, values;
      for (size_t j = 0; j < kLength; ++j) {
        keys.push_back(row_of(j, h, 1));
        values.push_back(row_of(j, h, 2));
      }
      const Values row = attended(row_of(i, h, 0), keys, values, kSize, 0.5);
      expected.insert(expected.end(), row.begin(), row.end());
      query.values.insert(query.values.end(), row_of(i, h, 0), row_of(i, h, 1));
      rest.values.insert(rest.values.end(), row_of(i, h, 1), row_of(i, h, 1) + 2 * kSize);
    }
  }
  const std::string heads = kMicrosoft + integer("num_heads", kHeads);
  const Inputs one{{"q", packed}}, two{{"q", query}, {"k", rest}};
  expect_near(results(parse(node("MultiHeadAttention", "q", "y", heads), one, "y", kNewest), one)[0],
              expected, 1e-5);
  expect_near(results(parse(node("MultiHeadAttention", "q k", "y", heads), two, "y", kNewest), two)[0],
              expected, 1e-5);
}

}  // namespace
}  // namespace gantry
