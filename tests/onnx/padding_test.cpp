// Sequences without what fills up their batch, against what com.microsoft's documentation says.
#include <gmock/gmock.h>

#include "host/support/error.h"
#include "tests/onnx/one_node.h"

namespace gantry {
namespace {

using ::testing::ElementsAre;
using testing::OneNode;
constexpr const char* kMicrosoft = "com.microsoft";

template <typename T>
std::vector<T> elements_of(const ConstantPtr& constant) {
  return {constant->as<T>(), constant->as<T>() + constant->size / sizeof(T)};
}

TEST(RemovePadding, KeepsTheTokensThatCount) {
  OneNode node(kMicrosoft, "RemovePadding", 17, 4);
  node.input<float>(DType::kF32, {2, 3, 2}, {1, 2, 0, 0, 0, 0, 3, 4, 5, 6, 0, 0});
  const std::vector<ConstantPtr> results = node.input<int32_t>(DType::kI32, {2}, {1, 2}).results();
  EXPECT_EQ(results[0]->type, (TensorType{DType::kF32, {3, 2}}));
  EXPECT_THAT(elements_of<float>(results[0]), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(results[1]->type, (TensorType{DType::kI32, {2, 3}}));
  EXPECT_THAT(elements_of<int32_t>(results[1]), ElementsAre(0, 3, 4, 1, 2, 5));
  EXPECT_THAT(elements_of<int32_t>(results[2]), ElementsAre(0, 1, 3));
  EXPECT_THAT(elements_of<int32_t>(results[3]), ElementsAre(2));
}

TEST(RemovePadding, NeedsACountForEachSequence) {
  OneNode node(kMicrosoft, "RemovePadding", 17, 4);
  node.input<float>(DType::kF32, {2, 1, 1}, {1, 2}).input<int32_t>(DType::kI32, {3}, {1, 1, 1});
  EXPECT_THROW(node.results(), Error);
}

TEST(RestorePadding, FillsUpWithZeros) {
  OneNode node(kMicrosoft, "RestorePadding", 17);
  node.input<float>(DType::kF32, {3, 2}, {1, 2, 3, 4, 5, 6});
  node.input<int32_t>(DType::kI32, {2, 3}, {0, 3, 4, 1, 2, 5});
  EXPECT_EQ(node.results()[0]->type.shape, (Shape{2, 3, 2}));
  EXPECT_THAT(node.run<float>(DType::kF32), ElementsAre(1, 2, 0, 0, 0, 0, 3, 4, 5, 6, 0, 0));
}

}  // namespace
}  // namespace gantry
