// com.microsoft's early versions of ops that ai.onnx has, against what their documentation says.
#include <gmock/gmock.h>

#include "host/support/error.h"
#include "tests/onnx/model_text.h"
#include "tests/onnx/one_node.h"

namespace gantry {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::OneNode;
constexpr const char* kMicrosoft = "com.microsoft";

TEST(MicrosoftRange, StepsByOneWithoutADelta) {
  OneNode whole(kMicrosoft, "Range", 17);
  whole.input<int64_t>(DType::kI64, {1}, {3}).input<int64_t>(DType::kI64, {1}, {7});
  EXPECT_THAT(whole.run<int64_t>(DType::kI64), ElementsAre(3, 4, 5, 6));
  OneNode floats(kMicrosoft, "Range", 17);
  floats.input<float>(DType::kF32, {}, {0.5F}).input<float>(DType::kF32, {}, {3});
  EXPECT_THAT(floats.run<float>(DType::kF32), ElementsAre(0.5F, 1.5F, 2.5F));
}

TEST(MicrosoftRange, StepsByItsDeltaUpToTheLimit) {
  OneNode node(kMicrosoft, "Range", 17);
  node.input<int32_t>(DType::kI32, {}, {10})
      .input<int32_t>(DType::kI32, {}, {3})
      .input<int32_t>(DType::kI32, {1}, {-3});
  EXPECT_THAT(node.run<int32_t>(DType::kI32), ElementsAre(10, 7, 4));
}

TEST(MicrosoftPad, TakesItsPadsAsARow) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{4}, std::vector<int64_t>{1, 4}}) {
    OneNode node(kMicrosoft, "Pad", 17);
    node.input<float>(DType::kF32, {3, 2}, {1, 1.5F, 2, 3, 4, 5})
        .input<int64_t>(DType::kI64, shape, {0, 2, -1, 0});
    node.input<float>(DType::kF32, {1}, {9});
    EXPECT_THAT(node.run<float>(DType::kF32), ElementsAre(9, 9, 1, 1.5F, 9, 9, 2, 3));
  }
}

TEST(MicrosoftPad, TakesARowOfConstants) {
  const model_text::Inputs inputs{{"x", {{2}, {1, 2}}}};
  const std::string pads = "initializer { name: 'pads' data_type: 7 dims: [1, 2] int64_data: [-1, 2] } ";
  const auto pad = model_text::node("Pad", "x pads", "y", "domain: 'com.microsoft' ");
  const auto model = model_text::parse(pads + pad, inputs, "y", model_text::kNewest);
  EXPECT_THAT(model_text::results(model, inputs)[0], ElementsAre(2, 0, 0));
}

TEST(MicrosoftPad, Reflects) {
  OneNode node(kMicrosoft, "Pad", 17);
  node.input<float>(DType::kF32, {1, 3}, {1, 2, 3}).input<int64_t>(DType::kI64, {4}, {0, 2, 0, 1});
  EXPECT_THAT(node.with("mode", "reflect").run<float>(DType::kF32), ElementsAre(3, 2, 1, 2, 3, 2));
}

TEST(MicrosoftUnique, KeepsTheOrderOfTheData) {
  OneNode node(kMicrosoft, "Unique", 17, 3);
  node.input<float>(DType::kF32, {6}, {2, 1, 1, 3, 4, 3});
  const std::vector<ConstantPtr> results = node.results();
  const auto places = [&](size_t i, size_t count) {
    return std::vector<int64_t>(results[i]->as<int64_t>(), results[i]->as<int64_t>() + count);
  };
  ASSERT_EQ(results[0]->type, (TensorType{DType::kF32, {4}}));
  EXPECT_THAT(std::vector<float>(results[0]->as<float>(), results[0]->as<float>() + 4),
              ElementsAre(2, 1, 3, 4));
  EXPECT_THAT(places(1, 6), ElementsAre(0, 1, 1, 2, 3, 2));
  EXPECT_THAT(places(2, 4), ElementsAre(1, 2, 2, 1));
}

TEST(MicrosoftUnique, OfAMatrixIsRefused) {
  OneNode node(kMicrosoft, "Unique", 17, 3);
  node.input<float>(DType::kF32, {2, 2}, {2, 1, 1, 3});
  EXPECT_THROW(node.results(), Error);
}

TEST(MicrosoftGatherND, TakesSlicesAndIndicesOf32Bits) {
  OneNode node(kMicrosoft, "GatherND", 17);
  node.input<float>(DType::kF32, {2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7})
      .input<int32_t>(DType::kI32, {2, 1, 2}, {0, 1, 1, 0});
  EXPECT_THAT(node.run<float>(DType::kF32), ElementsAreArray({2, 3, 4, 5}));
}

}  // namespace
}  // namespace gantry
