// Small ops of com.microsoft, against what their documentation says.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "host/support/error.h"
#include "tests/onnx/model_text.h"
#include "tests/onnx/one_node.h"

namespace gantry {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using testing::OneNode;
using ::testing::Pointwise;
using Floats = std::vector<float>;
constexpr const char* kMicrosoft = "com.microsoft";
constexpr float kInfinity = std::numeric_limits<float>::infinity();

OneNode microsoft(const char* op, int outputs = 1) {
  return {kMicrosoft, op, 17, outputs};
}

template <typename T>
std::vector<T> elements_of(const ConstantPtr& constant) {
  return {constant->as<T>(), constant->as<T>() + constant->size / sizeof(T)};
}

void expect_near(const Floats& actual, const Floats& expected) {
  EXPECT_THAT(actual, Pointwise(FloatNear(1e-5F), expected));
}

TEST(TorchEmbedding, LooksRowsUp) {
  OneNode node = microsoft("TorchEmbedding");
  node.input<float>(DType::kF32, {3, 2}, {1, 2, 3, 4, 5, 6}).input<int64_t>(DType::kI64, {1, 2}, {2, 0});
  EXPECT_THAT(node.run<float>(DType::kF32), ElementsAre(5, 6, 1, 2));
}

TEST(SampleOp, IsItsInput) {
  OneNode node = microsoft("SampleOp");
  EXPECT_THAT(node.input<float>(DType::kF32, {2}, {1, 2}).run<float>(DType::kF32), ElementsAre(1, 2));
}

TEST(ExpandDims, CountsItsAxisFromTheResultsEnd) {
  const std::string axis = "initializer { name: 'axis' data_type: 6 int32_data: -2 } ";
  const std::string expand = model_text::node("ExpandDims", "x axis", "y", "domain: 'com.microsoft' ");
  const Graph graph = model_text::imported_graph(model_text::open_input("x", "2 3") + axis + expand, "y");
  EXPECT_EQ(graph.main.outputs.at(0)->type.shape, (Shape{2, 1, 3}));
}

TEST(ConvTransposeWithDynamicPads, CutsWhatItsPadsSay) {
  const Floats x{1, 2, 3}, weight{1, 10, 100};
  // Each element times the kernel, one after another: 1, 12, 123, 230, 300.
  const auto cut = [&](int64_t begin, int64_t end) {
    OneNode node = microsoft("ConvTransposeWithDynamicPads");
    node.input<float>(DType::kF32, {1, 1, 3}, x).input<float>(DType::kF32, {1, 1, 3}, weight);
    node.input<int64_t>(DType::kI64, {2}, {begin, end}).input<float>(DType::kF32, {1}, {0.5F});
    return node.run<float>(DType::kF32);
  };
  EXPECT_THAT(cut(0, 0), ElementsAre(1.5F, 12.5F, 123.5F, 230.5F, 300.5F));
  EXPECT_THAT(cut(1, 2), ElementsAre(12.5F, 123.5F));
  OneNode without = microsoft("ConvTransposeWithDynamicPads");
  without.input<float>(DType::kF32, {1, 1, 3}, x).input<float>(DType::kF32, {1, 1, 3}, weight);
  EXPECT_THAT(without.run<float>(DType::kF32), ElementsAre(1, 12, 123, 230, 300));
}

TEST(ComplexMul, IsThatOfTheConjugateToo) {
  for (const bool conjugate : {false, true}) {
    OneNode node = microsoft(conjugate ? "ComplexMulConj" : "ComplexMul");
    node.input<float>(DType::kF32, {2, 2}, {1, 2, 3, -4}).input<float>(DType::kF32, {2}, {5, 6});
    // (1 + 2i)(5 + 6i) and (3 - 4i)(5 + 6i), and with 5 - 6i.
    const Floats expected = conjugate ? Floats{17, 4, -9, -38} : Floats{-7, 16, 39, -2};
    EXPECT_EQ(node.run<float>(DType::kF32), expected);
  }
}

TEST(Rfft, AndItsInverseAreOfTheLastAxis) {
  OneNode forward = microsoft("Rfft");
  forward.input<float>(DType::kF32, {1, 4}, {1, 2, 3, 6}).with("signal_ndim", int64_t{1});
  const Floats spectrum{12, 0, -2, 4, -4, 0};
  ASSERT_EQ(forward.results()[0]->type.shape, (Shape{1, 3, 2}));
  expect_near(forward.run<float>(DType::kF32), spectrum);
  OneNode back = microsoft("Irfft");
  back.input<float>(DType::kF32, {1, 3, 2}, spectrum).with("signal_ndim", int64_t{1});
  ASSERT_EQ(back.results()[0]->type.shape, (Shape{1, 4}));
  expect_near(back.run<float>(DType::kF32), {1, 2, 3, 6});
}

TEST(Rfft, OfTwoAxesIsRefused) {
  OneNode node = microsoft("Rfft");
  node.input<float>(DType::kF32, {2, 4}, Floats(8, 1)).with("signal_ndim", int64_t{2});
  EXPECT_THROW(node.results(), Error);
}

TEST(IsAllFinite, LooksAtAllItsInputs) {
  const auto says = [](const Floats& second, const char* only) {
    OneNode node = microsoft("IsAllFinite");
    node.input<float>(DType::kF32, {2}, {1, 2}).input<float>(DType::kF32, {1, 2}, second);
    if (only != nullptr) node.with(only, int64_t{1});
    EXPECT_EQ(node.results()[0]->type.shape, Shape{});
    return node.run<uint8_t>(DType::kBool).at(0) != 0;
  };
  EXPECT_TRUE(says({3, 4}, nullptr));
  EXPECT_FALSE(says({3, -kInfinity}, nullptr));
  EXPECT_FALSE(says({std::nanf(""), 4}, nullptr));
  EXPECT_TRUE(says({3, kInfinity}, "isnan_only"));
  EXPECT_FALSE(says({3, std::nanf("")}, "isnan_only"));
  EXPECT_TRUE(says({3, std::nanf("")}, "isinf_only"));
  EXPECT_FALSE(says({kInfinity, 4}, "isinf_only"));
}

TEST(NGramRepeatBlock, TokensThatRepeatAnNGramHaveNoScore) {
  OneNode node = microsoft("NGramRepeatBlock");
  // The first sequence ends in 1 2, which 3 and then 0 came after; the second in 3 3, which 3 came after.
  node.input<int64_t>(DType::kI64, {2, 8}, {1, 2, 3, 1, 2, 0, 1, 2, 0, 1, 2, 3, 0, 3, 3, 3});
  node.input<float>(DType::kF32, {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}).with("ngram_size", int64_t{3});
  EXPECT_THAT(node.run<float>(DType::kF32), ElementsAre(-kInfinity, 2, 3, -kInfinity, 5, 6, 7, -kInfinity));
  OneNode brief = microsoft("NGramRepeatBlock");
  brief.input<int64_t>(DType::kI64, {1, 2}, {1, 1}).input<float>(DType::kF32, {1, 2}, {1, 2});
  EXPECT_THAT(brief.with("ngram_size", int64_t{3}).run<float>(DType::kF32), ElementsAre(1, 2));
}

TEST(NGramRepeatBlock, OfFewerTokensThanAnNGramBlocksNothing) {
  using namespace model_text;  // NOLINT
  const std::string attributes = "domain: 'com.microsoft' " + integer("ngram_size", 3);
  const Graph graph = imported_graph(open_input("ids", "1 N", 7) + open_input("scores", "1 4") +
                                         node("NGramRepeatBlock", "ids scores", "y", attributes),
                                     "y");
  const auto after = [&](const std::vector<int64_t>& tokens) {
    const Floats scores{1, 2, 3, 4};
    const ConstantPtr ids =
        make_constant({DType::kI64, {1, static_cast<int64_t>(tokens.size())}}, tokens.data());
    const ConstantPtr given = make_constant({DType::kF32, {1, 4}}, scores.data());
    return elements_of<float>(testing::interpret_function(graph.main, {ids, given}).at(0));
  };
  for (const std::vector<int64_t>& few : {std::vector<int64_t>{}, {1}, {1, 1}})
    EXPECT_THAT(after(few), ElementsAre(1, 2, 3, 4)) << few.size();
  EXPECT_THAT(after({1, 1, 1}), ElementsAre(1, -kInfinity, 3, 4));
  EXPECT_THAT(after({1, 2, 3, 1, 2}), ElementsAre(1, 2, 3, -kInfinity));
}

TEST(NGramRepeatBlock, OfVeryLongNGramsIsRefusedWhereThereMayBeOne) {
  using namespace model_text;  // NOLINT
  constexpr int64_t kSize = int64_t{1} << 40;
  OneNode brief = microsoft("NGramRepeatBlock");
  brief.input<int64_t>(DType::kI64, {1, 2}, {1, 1}).input<float>(DType::kF32, {1, 2}, {1, 2});
  EXPECT_THAT(brief.with("ngram_size", kSize).run<float>(DType::kF32), ElementsAre(1, 2));
  const std::string block =
      node("NGramRepeatBlock", "ids scores", "y", "domain: 'com.microsoft' " + integer("ngram_size", kSize));
  try {
    imported_graph(open_input("ids", "1 N", 7) + open_input("scores", "1 4") + block, "y");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("an ngram_size above 1024"));
  }
}

TEST(GemmaRotaryEmbedding, TurnsQueriesAndKeys) {
  OneNode node = microsoft("GemmaRotaryEmbedding", 2);
  node.input<float>(DType::kF32, {1, 2, 2}, {0.5F, 1, -1, 2});
  const std::vector<Floats> given{{1, 2, 3, 4}, {5, 6, 7, 8}, {-1, -2, -3, -4}, {0, 1, 2, 3}};
  for (const Floats& x : given) node.input<float>(DType::kF32, {1, 1, 2, 2}, x);
  const std::vector<ConstantPtr> results = node.results();
  const float angles[] = {0.5F, 1, -1, 2};
  for (size_t i = 0; i < 2; ++i) {
    Floats expected;
    for (size_t at = 0; at < 4; ++at)
      expected.push_back(given[2 * i][at] * std::cos(angles[at]) +
                         given[2 * i + 1][at] * std::sin(angles[at]));
    expect_near(elements_of<float>(results[i]), expected);
  }
}

TEST(BiasSoftmax, IsOverAllAxesFromItsOwn) {
  OneNode node = microsoft("BiasSoftmax");
  const Floats x{1, 2, 3, 4, 0, -1, 2, 1}, bias{0.5F, -0.5F};
  node.input<float>(DType::kF32, {2, 2, 2}, x).input<float>(DType::kF32, {1, 1, 2}, bias);
  node.with("axis", int64_t{1}).with("is_inner_broadcast", int64_t{0});
  Floats expected;
  for (size_t row = 0; row < 2; ++row) {
    float total = 0;
    for (size_t i = 0; i < 4; ++i) total += std::exp(x[row * 4 + i] + bias[i % 2]);
    for (size_t i = 0; i < 4; ++i) expected.push_back(std::exp(x[row * 4 + i] + bias[i % 2]) / total);
  }
  expect_near(node.run<float>(DType::kF32), expected);
}

TEST(BiasDropout, DropsNothingInInference) {
  for (const bool bits : {false, true}) {
    OneNode node = microsoft(bits ? "BitmaskBiasDropout" : "BiasDropout", 2);
    node.input<float>(DType::kF32, {2, 2}, {1, 2, 3, 4}).input<float>(DType::kF32, {2}, {10, 20});
    node.input<float>(DType::kF32, {2, 2}, {100, 200, 300, 400});
    const std::vector<ConstantPtr> results = node.results();
    EXPECT_THAT(elements_of<float>(results[0]), ElementsAre(111, 222, 313, 424));
    if (bits)
      EXPECT_THAT(elements_of<uint32_t>(results[1]), ElementsAre(0xffffffffU));
    else
      EXPECT_THAT(elements_of<uint8_t>(results[1]), ElementsAre(1, 1, 1, 1));
  }
}

TEST(BitmaskDropout, HasABitAnElementInItsMask) {
  OneNode node = microsoft("BitmaskDropout", 2);
  const Floats x(33, 2);
  const std::vector<ConstantPtr> results = node.input<float>(DType::kF32, {33}, x).results();
  EXPECT_EQ(elements_of<float>(results[0]), x);
  EXPECT_THAT(elements_of<uint32_t>(results[1]), ElementsAre(0xffffffffU, 0xffffffffU));
}

TEST(BitmaskDropout, InTrainingIsRefused) {
  OneNode node = microsoft("BitmaskDropout");
  node.input<float>(DType::kF32, {2}, {1, 2}).input<float>(DType::kF32, {}, {0.5F});
  EXPECT_THROW(node.input<uint8_t>(DType::kBool, {}, {1}).results(), Error);
}

}  // namespace
}  // namespace gantry
