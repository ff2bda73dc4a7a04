// Rotary embeddings against float64 loops, with which ONNX Runtime's MRotaryEmbedding agrees on CPUs.
#include <gmock/gmock.h>

#include "host/support/error.h"
#include "tests/onnx/model_text.h"

namespace gantry {
namespace {

using namespace model_text;  // NOLINT

constexpr const char* kMicrosoft = "domain: 'com.microsoft' ";
constexpr size_t kBatch = 2, kLength = 3, kHeads = 2, kSize = 16, kPairs = 6, kPositions = 10;
using Values = std::vector<double>;

struct Case {
  std::vector<int64_t> sections;
  int64_t layout;
  std::vector<size_t> sources;  ///< of each pair: time, height or width
};

Inputs rotary_inputs() {
  Given positions{{3, kBatch, kLength}, {}, DType::kI64};
  for (size_t i = 0; i < 3 * kBatch * kLength; ++i)
    positions.values.push_back(static_cast<double>(i * 7 % kPositions));
  return {{"x", random({kBatch, kLength, kHeads * kSize}, 1)},
          {"p", positions},
          {"c", random({kPositions, kPairs}, 2)},
          {"s", random({kPositions, kPairs}, 3)}};
}

/// Of data (B, L, heads * size); features behind the pairs stay.
Values turned(const Inputs& inputs, const std::vector<size_t>& sources, bool neighbours) {
  Values y = inputs[0].second.values;
  for (size_t row = 0; row < kBatch * kLength; ++row) {
    for (size_t head = 0; head < kHeads; ++head) {
      double* features = &y[(row * kHeads + head) * kSize];
      for (size_t pair = 0; pair < kPairs; ++pair) {
        const auto position =
            static_cast<size_t>(inputs[1].second.values[sources[pair] * kBatch * kLength + row]);
        const double cosine = inputs[2].second.values[position * kPairs + pair],
                     sine = inputs[3].second.values[position * kPairs + pair];
        double& a = features[neighbours ? 2 * pair : pair];
        double& b = features[neighbours ? 2 * pair + 1 : pair + kPairs];
        const double real = a * cosine - b * sine;
        b = a * sine + b * cosine;
        a = real;
      }
    }
  }
  return y;
}

Values computed(const Inputs& inputs, const std::vector<int64_t>& sections, const std::string& rest) {
  const std::string nodes = node(
      "MRotaryEmbedding", "x p c s", "y",
      kMicrosoft + integer("num_heads", kHeads) + integer("rotary_embedding_dim", 2 * kPairs) +
          attribute("mrope_section", fmt::format("type: INTS ints: [{}]", fmt::join(sections, ", "))) + rest);
  return results(parse(nodes, inputs, "y", kNewest), inputs)[0];
}

TEST(MRotaryEmbedding, APairTurnsByThePositionOfItsSection) {
  const Case cases[] = {{{3, 2, 1}, 0, {0, 0, 0, 1, 1, 2}},
                        {{6, 0, 0}, 0, {0, 0, 0, 0, 0, 0}},
                        {{2, 2, 2}, 1, {0, 1, 2, 0, 1, 2}},
                        {{3, 2, 1}, 1, {0, 1, 2, 0, 1, 0}}};
  const Inputs inputs = rotary_inputs();
  for (const Case& c : cases) {
    for (const bool neighbours : {false, true}) {
      SCOPED_TRACE(fmt::format("layout {} neighbours {}", c.layout, neighbours));
      const std::string rest = integer("mrope_layout", c.layout) + integer("interleaved", neighbours ? 1 : 0);
      expect_near(computed(inputs, c.sections, rest), turned(inputs, c.sources, neighbours), 1e-5);
    }
  }
}

TEST(MRotaryEmbedding, SectionsThatAreNotAllPairsAreRefused) {
  for (const std::vector<int64_t>& sections : {std::vector<int64_t>{3, 2, 2}, {6}, {8, -1, -1}}) {
    try {
      computed(rotary_inputs(), sections, "");
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("does not divide 6 pairs into 3 sections"));
    }
  }
}

/// Of com.microsoft's RotaryEmbedding, of pairs of one half and the other.
Values turned_at(const Given& positions) {
  Inputs inputs = rotary_inputs();
  inputs[1].second = positions;
  const std::string attributes =
      kMicrosoft + integer("num_heads", kHeads) + integer("rotary_embedding_dim", 2 * kPairs);
  return results(parse(node("RotaryEmbedding", "x p c s", "y", attributes), inputs, "y", kNewest), inputs)[0];
}
/// What is said to be wrong with the one node, whose result is y.
std::string error_of(const std::string& nodes, const Inputs& inputs) {
  try {
    results(parse(nodes, inputs, "y", kNewest), inputs);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(RotaryEmbedding, OnePositionIsThatOfTheFirstElementOfEverySequence) {
  Inputs inputs = rotary_inputs();
  inputs[1].second = {{kBatch, kLength}, {2, 3, 4, 2, 3, 4}, DType::kI64};
  const Values expected = turned(inputs, std::vector<size_t>(kPairs, 0), false);
  expect_near(turned_at(inputs[1].second), expected, 1e-5);
  expect_near(turned_at({{1}, {2}, DType::kI64}), expected, 1e-5);
  expect_near(turned_at({{}, {2}, DType::kI64}), expected, 1e-5);
}

TEST(RotaryEmbedding, PositionsThatAreNotOnesOfTheElementsAreRefused) {
  const std::vector<Given> wrong{{{kLength}, {2, 3, 4}, DType::kI64},
                                 {{kBatch, 1}, {2, 3}, DType::kI64},
                                 {{1, kBatch, kLength}, {2, 3, 4, 2, 3, 4}, DType::kI64}};
  for (const Given& positions : wrong) {
    Inputs inputs = rotary_inputs();
    inputs[1].second = positions;
    const std::string attributes = kMicrosoft + integer("num_heads", kHeads);
    EXPECT_THAT(error_of(node("RotaryEmbedding", "x p c s", "y", attributes), inputs),
                ::testing::HasSubstr("should be one, or one for each of the 3 elements"));
  }
}

TEST(RotaryEmbedding, CosinesThatAreOfNoPositionsAreRefused) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {kPairs}}) {
    const Given cosines = random(shape, 2), x = random({kBatch, kLength, kHeads * kSize}, 1);
    const Inputs plain{{"x", x}, {"c", cosines}, {"s", cosines}};
    EXPECT_THAT(error_of(node("RotaryEmbedding", "x c s", "y", integer("num_heads", kHeads)), plain),
                ::testing::HasSubstr("should have 2 or 3 dimensions"));
    const Inputs attended{{"q", x}, {"k", x}, {"v", x}, {"c", cosines}, {"s", cosines}};
    const std::string lengths =
        "initializer { name: 'lengths' dims: 2 data_type: 6 int32_data: [2, 2] } "
        "initializer { name: 'total' data_type: 6 int32_data: 3 } ";
    const std::string attributes =
        kMicrosoft + integer("num_heads", kHeads) + integer("kv_num_heads", kHeads) + integer("do_rotary", 1);
    const std::string attend = node("GroupQueryAttention", "q k v - - lengths total c s", "y", attributes);
    EXPECT_THAT(error_of(lengths + attend, attended), ::testing::HasSubstr("should have 2 dimensions"));
  }
}

}  // namespace
}  // namespace gantry
