// com.microsoft's MRotaryEmbedding against float64 loops, which agree with ONNX Runtime's kernel for CPUs.
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

}  // namespace
}  // namespace gantry
