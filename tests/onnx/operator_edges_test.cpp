// Attributes, operands and bounds at the edge of what they may be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "host/support/error.h"
#include "tests/onnx/model_text.h"
#include "tests/onnx/one_node.h"

namespace gantry {
namespace {

using ::testing::ElementsAre;
using testing::interpret_function;
using testing::OneNode;

// A variance of a million is none of f16: its data, 2000 and -1000, are twice and once the deviation.
TEST(BatchNormalization, OfHalvesTakesStatisticsOfF32AsTheyAre) {
  OneNode node("", "BatchNormalization", 15);
  node.input<uint16_t>(DType::kF16, {1, 1, 2}, {0x67D0, 0xE3D0});
  for (const float statistic : {1.0F, 0.0F, 0.0F, 1e6F}) node.input<float>(DType::kF32, {1}, {statistic});
  EXPECT_THAT(node.run<uint16_t>(DType::kF16), ElementsAre(0x4000, 0xBC00));  // 2, -1
}

TEST(BatchNormalization, OfAVectorIsOfOneChannel) {
  OneNode given("", "BatchNormalization", 9), own("", "BatchNormalization", 15, 3);
  given.input<float>(DType::kF32, {3}, {1, 2, 3}).with("epsilon", 0.0);
  own.input<float>(DType::kF32, {2}, {1, 3}).with("epsilon", 0.0).with("momentum", 0.5);
  for (const float statistic : {2.0F, 1.0F, 2.0F, 4.0F}) {  // scale, bias, mean, variance
    given.input<float>(DType::kF32, {1}, {statistic});
    own.input<float>(DType::kF32, {1}, {statistic});
  }
  EXPECT_EQ(given.results().at(0)->type.shape, Shape{3});
  EXPECT_THAT(given.run<float>(DType::kF32), ElementsAre(0, 1, 2));
  const std::vector<ConstantPtr> results = own.with("training_mode", int64_t{1}).results();
  ASSERT_EQ(results[0]->type.shape, Shape{2});
  EXPECT_THAT(std::vector<float>(results[0]->as<float>(), results[0]->as<float>() + 2), ElementsAre(-1, 3));
  EXPECT_EQ(results[1]->type.shape, Shape{1});
  EXPECT_EQ(*results[1]->as<float>(), 2.0F);
  EXPECT_EQ(*results[2]->as<float>(), 2.5F);
}

TEST(Windows, WithAStrideBeyondTheDataThereIsOne) {
  OneNode node("", "MaxPool", 12);
  node.input<float>(DType::kF32, {1, 1, 5}, {1, 7, 3, 9, 8})
      .with_list("kernel_shape", {3})
      .with_list("strides", {(int64_t{1} << 31) - 1});
  EXPECT_THAT(node.run<float>(DType::kF32), ElementsAre(7));
}

// Unlike NumPy's, which has one coordinate.
TEST(NonZero, OfAScalarHasPositionsWithoutCoordinates) {
  for (const int64_t value : {0, -5}) {
    OneNode node("", "NonZero", 13);
    node.input<int64_t>(DType::kI64, {}, {value});
    EXPECT_EQ(node.results().at(0)->type.shape, (Shape{0, value == 0 ? 0 : 1}));
  }
}

// By hand: x runs over -1 and 1, y is -1 where there is one row.
TEST(AffineGrid, ALoneElementOfAlignedCornersLiesAtTheStart) {
  OneNode node("", "AffineGrid", 20);
  node.input<float>(DType::kF32, {1, 2, 3}, {1, 10, 100, 2, 20, 200})
      .input<int64_t>(DType::kI64, {4}, {1, 1, 1, 2})
      .with("align_corners", int64_t{1});
  EXPECT_THAT(node.run<float>(DType::kF32), ElementsAre(89, 178, 91, 182));
}

// The lower one is known when the model is read, the upper one only when it runs.
TEST(Clip, TakesTheUpperBoundWhereTheyCross) {
  const std::string vector = "type { tensor_type { elem_type: 1 shape { dim { dim_value: 3 } } } } } ";
  const std::string text =
      "ir_version: 8 opset_import { version: 13 } graph { name: 'g' initializer { name: 'low' data_type: 1 "
      "float_data: 5 } "
      "node { op_type: 'Clip' input: 'x' input: 'low' input: 'high' output: 'y' } input { name: 'x' " +
      vector +
      "input { name: 'high' type { tensor_type { elem_type: 1 shape { } } } } output { name: 'y' } }";
  onnx::ModelProto proto;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto));
  const Graph graph = import_onnx_bytes(proto.SerializeAsString(), ".");
  const std::vector<float> x{-9, 2, 9}, high{1};
  const ConstantPtr y = interpret_function(graph.main, {make_constant({DType::kF32, {3}}, x.data()),
                                                        make_constant({DType::kF32, {}}, high.data())})
                            .at(0);
  EXPECT_THAT(std::vector<float>(y->as<float>(), y->as<float>() + 3), ElementsAre(1, 1, 1));
}

// Equal scores, so that the result is the mean of the values that are attended.
TEST(Attention, AMaskOfOneKeyIsOfTheFirstSinceOperatorSet24) {
  const auto attended = [](int64_t opset) {
    OneNode attention("", "Attention", opset);
    attention.input<float>(DType::kF32, {1, 1, 1, 1}, {0})
        .input<float>(DType::kF32, {1, 1, 2, 1}, {0, 0})
        .input<float>(DType::kF32, {1, 1, 2, 1}, {1, 3})
        .input<uint8_t>(DType::kBool, {1, 1}, {1});
    return attention.run<float>(DType::kF32);
  };
  EXPECT_THAT(attended(24), ElementsAre(1));
  EXPECT_THAT(attended(23), ElementsAre(2));
}

// Of 1000 times 60, and of 60000 beside it: a millionth is a denormal number of f16, which is off by 1 %.
TEST(Gemm, OfShortFloatsIsScaledByNumbersThatTheyDoNotHold) {
  const auto scaled = [](const char* domain, const char* op, bool adds) {
    OneNode node(domain, op, 13);
    node.input<uint16_t>(DType::kF16, {1, 1}, {0x63D0}).input<uint16_t>(DType::kF16, {1, 1}, {0x5380});
    if (adds) node.input<uint16_t>(DType::kF16, {1}, {0x7B53}).with("beta", 1e-6);
    return node.with("alpha", 1e-6).run<uint16_t>(DType::kF16);
  };
  EXPECT_THAT(scaled("", "Gemm", false), ElementsAre(0x2BAE)) << "0.06";
  EXPECT_THAT(scaled("", "Gemm", true), ElementsAre(0x2FAE)) << "0.12";
  EXPECT_THAT(scaled("com.microsoft", "FusedMatMul", false), ElementsAre(0x2BAE));
}

/// Of one row; the type of its mean and deviation by `stash_type`.
std::vector<ConstantPtr> layer_norm(const std::vector<float>& row, int64_t stash_type) {
  OneNode node("", "LayerNormalization", 17, 3);
  const auto count = static_cast<int64_t>(row.size());
  node.input<float>(DType::kF32, {1, count}, row)
      .input<float>(DType::kF32, {count}, std::vector<float>(row.size(), 2))
      .input<float>(DType::kF32, {count}, std::vector<float>(row.size(), 1));
  return node.with("epsilon", 0.0).with("stash_type", stash_type).results();
}

// 257 is no number of bf16, but 256 is, and 252 the mean of 256 and 248: deviations are 4, not 4.5.
TEST(LayerNormalization, HasAMeanOfBf16WhereItIsAskedFor) {
  const auto narrow = layer_norm({257, 248}, 16), wide = layer_norm({257, 248}, 1);
  const auto* y = narrow.at(0)->as<float>();
  EXPECT_THAT(std::vector<float>(y, y + 2), ElementsAre(3, -1));
  for (const size_t i : {size_t{1}, size_t{2}}) {
    EXPECT_EQ(narrow[i]->type, (TensorType{DType::kBF16, {1, 1}}));
    EXPECT_EQ(wide[i]->type, (TensorType{DType::kF32, {1, 1}}));
  }
  EXPECT_EQ(*narrow[1]->as<uint16_t>(), 0x437C) << "252";
  EXPECT_EQ(*narrow[2]->as<uint16_t>(), 0x3E80) << "1/4";
  EXPECT_EQ(*wide[1]->as<float>(), 252.5F);
}

TEST(LayerNormalization, HasNoMeanOfOtherTypes) {
  for (const int64_t stash_type : {7, 10, 11}) {
    try {
      layer_norm({1, 2}, stash_type);
      ADD_FAILURE() << stash_type << " is taken";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("node node (LayerNormalization): its stash_type is "));
    }
  }
}

// erf(3) is 0.99998; erf(4) is nearer to 1 than to any other f32.
TEST(Erf, OfIntegersIsCutOffAfterItIsAFloat) {
  OneNode erf("", "Erf", 9);
  erf.input<int32_t>(DType::kI32, {6}, {0, 1, 3, 4, 9, -4});
  EXPECT_THAT(erf.run<int32_t>(DType::kI32), ElementsAre(0, 0, 0, 1, 1, -1));
}

// No double tells the ends of the first from each other; those of the last are farther apart than i64 holds.
TEST(Range, OfIntegersThatNoDoubleHoldsHasAsManyAsThereAre) {
  const auto range = [](int64_t start, int64_t limit, int64_t delta) {
    OneNode node("", "Range", 11);
    for (const int64_t number : {start, limit, delta}) node.input<int64_t>(DType::kI64, {}, {number});
    return node.run<int64_t>(DType::kI64);
  };
  constexpr int64_t kFar = int64_t{1} << 60, kLeast = std::numeric_limits<int64_t>::min();
  EXPECT_THAT(range(kFar + 1, kFar + 6, 1), ElementsAre(kFar + 1, kFar + 2, kFar + 3, kFar + 4, kFar + 5));
  EXPECT_THAT(range(-kFar, -kFar - 5, -2), ElementsAre(-kFar, -kFar - 2, -kFar - 4));
  EXPECT_THAT(range(kFar + 1, kFar + 1, 1), ElementsAre());
  EXPECT_THAT(range(kFar + 1, kFar, 1), ElementsAre());
  EXPECT_THAT(range(-(kLeast + 1), kLeast, kLeast), ElementsAre(-(kLeast + 1), -1));
  EXPECT_THROW(range(0, 5, 0), Error);
}

// 299 and 3999 are no numbers of bf16 and f16: counted in these, the last ones would be 0.
TEST(Range, OfNarrowFloatsIsCountedInAWiderType) {
  const auto range = [](DType dtype, const std::vector<uint16_t>& numbers, int64_t stash_type) {
    OneNode node("", "Range", 27);
    for (const uint16_t number : numbers) node.input<uint16_t>(dtype, {}, {number});
    return node.with("stash_type", stash_type).run<uint16_t>(dtype);
  };
  for (const int64_t stash_type : {1, 11}) {
    const auto ones = range(DType::kBF16, {0xC396, 0, 0x3F80}, stash_type);  // from -300 to 0
    ASSERT_EQ(ones.size(), 300U);
    EXPECT_EQ(ones[1], 0xC396) << "-299 is rounded";
    EXPECT_EQ(ones.back(), 0xBF80);
    const auto halves = range(DType::kF16, {0xE7D0, 0, 0x3800}, stash_type);  // from -2000 to 0
    ASSERT_EQ(halves.size(), 4000U);
    EXPECT_EQ(halves[2001], 0xE3CF) << "-999.5";
    EXPECT_EQ(halves.back(), 0xB800);
  }
  EXPECT_THROW(range(DType::kBF16, {0xC396, 0, 0x3F80}, 16), Error);
}

TEST(Range, OfConstantsOfNarrowFloatsIsCountedInAWiderType) {
  const std::string numbers =
      "initializer { name: 'start' data_type: 16 int32_data: 0xC396 } "
      "initializer { name: 'limit' data_type: 16 int32_data: 0 } "
      "initializer { name: 'delta' data_type: 16 int32_data: 0x3F80 } ";
  const Graph graph =
      model_text::imported_graph(numbers + model_text::node("Range", "start limit delta", "y"), "y");
  const ConstantPtr y = interpret_function(graph.main, {}).at(0);
  ASSERT_EQ(y->type, (TensorType{DType::kBF16, {300}}));
  EXPECT_EQ(y->as<uint16_t>()[299], 0xBF80);
}

TEST(OneHot, OfUnsignedIndicesCountsNoneFromTheEnd) {
  OneNode node("", "OneHot", 11);
  node.input<uint64_t>(DType::kU64, {2}, {std::numeric_limits<uint64_t>::max(), 1})
      .input<int64_t>(DType::kI64, {1}, {3})
      .input<float>(DType::kF32, {2}, {0, 1});
  EXPECT_THAT(node.run<float>(DType::kF32), ElementsAre(0, 0, 0, 0, 1, 0));
}

TEST(Unique, OfTruthsFalseComesFirst) {
  OneNode node("", "Unique", 11, 4);
  node.input<uint8_t>(DType::kBool, {4}, {1, 0, 1, 1});
  const std::vector<ConstantPtr> results = node.results();
  EXPECT_EQ(results[0]->type.shape, Shape{2});
  EXPECT_THAT(std::vector<uint8_t>(results[0]->as<uint8_t>(), results[0]->as<uint8_t>() + 2),
              ElementsAre(0, 1));
  const auto integers = [&](size_t i, size_t count) {
    return std::vector<int64_t>(results[i]->as<int64_t>(), results[i]->as<int64_t>() + count);
  };
  EXPECT_THAT(integers(1, 2), ElementsAre(1, 0));
  EXPECT_THAT(integers(2, 4), ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(integers(3, 2), ElementsAre(1, 3));
}

// As NumPy's unique has them.
TEST(Unique, NaNIsOneElementAfterTheNumbers) {
  const float nan = std::nanf("");
  OneNode node("", "Unique", 11, 4);
  node.input<float>(DType::kF32, {4}, {nan, 1, nan, 1});
  const std::vector<ConstantPtr> results = node.results();
  ASSERT_EQ(results[0]->type.shape, Shape{2});
  EXPECT_THAT(std::vector<float>(results[0]->as<float>(), results[0]->as<float>() + 2),
              ElementsAre(1, ::testing::IsNan()));
  const auto integers = [&](size_t i, size_t count) {
    return std::vector<int64_t>(results[i]->as<int64_t>(), results[i]->as<int64_t>() + count);
  };
  EXPECT_THAT(integers(1, 2), ElementsAre(1, 0));
  EXPECT_THAT(integers(2, 4), ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(integers(3, 2), ElementsAre(2, 2));
}

TEST(Unique, OfRowsHasThoseOfNaNLast) {
  OneNode node("", "Unique", 11);
  node.input<float>(DType::kF32, {3, 1}, {2, std::nanf(""), 1}).with("axis", int64_t{0});
  EXPECT_THAT(node.run<float>(DType::kF32), ElementsAre(1, 2, ::testing::IsNan()));
}

TEST(Unique, OfNothingIsNothing) {
  using namespace model_text;  // NOLINT
  const std::string outputs = "y first inverse counts";
  const std::string none = "initializer { name: 'x' dims: 0 data_type: 1 } ";
  for (const int64_t is_sorted : {0, 1}) {
    const std::string nodes = none + node("Unique", "x", outputs, integer("sorted", is_sorted));
    for (const std::vector<double>& result : results(parse(nodes, {}, outputs, kNewest), {}))
      EXPECT_THAT(result, ElementsAre());
  }
}

// 0x38 is 1 and 0x40 is 2.
TEST(Pad, TakesAPaddingValueOfEightBits) {
  const std::string text =
      "ir_version: 10 opset_import { version: 24 } graph { name: 'g' initializer { name: 'value' data_type: "
      "17 raw_data: '@' } "
      "initializer { name: 'pads' data_type: 7 dims: 2 int64_data: [1, 2] } node { op_type: 'Pad' input: 'x' "
      "input: 'pads' "
      "input: 'value' output: 'y' } input { name: 'x' type { tensor_type { elem_type: 17 shape { dim { "
      "dim_value: 1 } } } } } "
      "output { name: 'y' } }";
  onnx::ModelProto proto;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto));
  const Graph graph = import_onnx_bytes(proto.SerializeAsString(), ".");
  const std::vector<uint8_t> x{0x38};
  const ConstantPtr y =
      interpret_function(graph.main, {make_constant({DType::kF8E4M3FN, {1}}, x.data())}).at(0);
  EXPECT_THAT(std::vector<uint8_t>(y->as<uint8_t>(), y->as<uint8_t>() + 4),
              ElementsAre(0x40, 0x38, 0x40, 0x40));
}

/// Two elements with one in front of them and two behind; `value`: an initialiser's fields, or none.
ConstantPtr padded(int element_type, const ConstantPtr& x, const std::string& value) {
  const std::string text =
      "ir_version: 8 opset_import { version: 13 } graph { name: 'g' "
      "initializer { name: 'pads' data_type: 7 dims: 2 int64_data: [1, 2] } " +
      (value.empty() ? ""
                     : fmt::format("initializer {{ name: 'v' data_type: {} {} }} ", element_type, value)) +
      model_text::node("Pad", value.empty() ? "x pads" : "x pads v", "y") +
      model_text::open_input("x", "2", element_type) + "output { name: 'y' } }";
  onnx::ModelProto proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
  return interpret_function(import_onnx_bytes(proto.SerializeAsString(), ".").main, {x}).at(0);
}

TEST(Pad, TakesStrings) {
  const ConstantPtr x = make_strings({2}, {"a", "b"});
  EXPECT_THAT(strings_of(*padded(8, x, "string_data: '-'")), ElementsAre("-", "a", "b", "-", "-"));
  EXPECT_THAT(strings_of(*padded(8, x, "")), ElementsAre("", "a", "b", "", ""));
}

// 2^53 + 1 is no double.
TEST(Pad, TakesIntegersThatNoDoubleHolds) {
  const std::vector<int64_t> x{1, 2};
  const ConstantPtr y =
      padded(7, make_constant({DType::kI64, {2}}, x.data()), "int64_data: 9007199254740993");
  EXPECT_THAT(std::vector<int64_t>(y->as<int64_t>(), y->as<int64_t>() + 5),
              ElementsAre(9007199254740993, 1, 2, 9007199254740993, 9007199254740993));
}

// Unlike no list of axes, which means all of them.
TEST(Pad, OfAnEmptyListOfAxesIsItsData) {
  using namespace model_text;  // NOLINT
  const Inputs inputs{{"x", {{2}, {1, 2}}}};
  const std::string nodes =
      "initializer { name: 'none' dims: 0 data_type: 7 } " + node("Pad", "x none - none", "y");
  EXPECT_THAT(results(parse(nodes, inputs, "y", kNewest), inputs).at(0), ElementsAre(1, 2));
}

TEST(Trilu, TakesDiagonalsAtTheEndsOfTheirType) {
  constexpr int64_t kFirst = std::numeric_limits<int64_t>::min(), kLast = std::numeric_limits<int64_t>::max();
  const auto part = [](int64_t upper, int64_t k) {
    OneNode node("", "Trilu", 14);
    node.input<float>(DType::kF32, {3, 2}, {1, 2, 3, 4, 5, 6}).input<int64_t>(DType::kI64, {}, {k});
    return node.with("upper", upper).run<float>(DType::kF32);
  };
  EXPECT_THAT(part(1, kLast), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(part(1, kFirst), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(part(0, kLast), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(part(0, kFirst), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(part(1, 1), ElementsAre(0, 2, 0, 0, 0, 0));
}

// How many dimensions the result has must not depend on an open one.
TEST(Squeeze, OfAxesThatNobodyNamesNeedsOpenOnesToBeOtherThan1) {
  const std::string text =
      "ir_version: 8 opset_import { version: 13 } graph { name: 'g' node { op_type: 'Squeeze' input: 'x' "
      "output: 'y' } "
      "input { name: 'x' type { tensor_type { elem_type: 1 shape { dim { dim_param: 'N' } dim { dim_value: 1 "
      "} } } } } "
      "output { name: 'y' } }";
  onnx::ModelProto proto;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto));
  const Graph graph = import_onnx_bytes(proto.SerializeAsString(), ".");
  ASSERT_EQ(graph.main.constraints.size(), 1U);
  const auto& constraint = graph.main.constraints.front();
  for (const int64_t size : {0, 1, 2, 7}) {
    const std::map<std::string, int64_t> sizes{{"N", size}};
    EXPECT_EQ(constraint.left.evaluate(sizes) == constraint.right.evaluate(sizes), size != 1) << size;
  }
}

// Of truth values at one place of the image: whether any is true, not how many.
TEST(Col2Im, OfTruthValuesIsTrueWhereAnyBlockIs) {
  OneNode node("", "Col2Im", 18);
  node.input<uint8_t>(DType::kBool, {1, 2, 2}, {0, 1, 1, 0})
      .input<int64_t>(DType::kI64, {2}, {3, 1})
      .input<int64_t>(DType::kI64, {2}, {2, 1});
  EXPECT_THAT(node.run<uint8_t>(DType::kBool), ElementsAre(0, 1, 0));
}

}  // namespace
}  // namespace gantry
