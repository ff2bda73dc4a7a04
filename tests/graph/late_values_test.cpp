#include "host/graph/late_values.h"

#include <gmock/gmock.h>

#include "host/support/error.h"

namespace gantry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ConstantPtr floats(const std::vector<float>& values) {
  const float none = 0;
  return make_constant({DType::kF32, {static_cast<int64_t>(values.size())}},
                       values.empty() ? &none : values.data());
}
/// Rows of three numbers: of tensors of two dimensions at most.
ConstantPtr rows(const std::vector<int64_t>& values) {
  const int64_t none = 0;
  return make_constant({DType::kI64, {static_cast<int64_t>(values.size() / 3), 3}},
                       values.empty() ? &none : values.data());
}
ConstantPtr truth(bool value) {
  return make_constant({DType::kBool, {}}, &value);
}
std::vector<std::string> names_of(const UnpackedOutputs& outputs) {
  std::vector<std::string> names;
  for (const NamedConstant& tensor : outputs.tensors) names.push_back(tensor.name);
  return names;
}
std::string error_of(const ConstantPtr& elements, const ConstantPtr& dims) {
  try {
    unpack_sequence(elements, dims);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(LateValues, ASequenceIsOneTensorBehindTheOther) {
  const auto tensors = unpack_sequence(floats({1, 2, 3, 4, 5}), rows({2, 2, 1, 0, 1, 1, 1, 0, 1, 1, 2, 1}));
  ASSERT_EQ(tensors.size(), 4u);
  EXPECT_EQ(tensors[0]->type, (TensorType{DType::kF32, {2, 1}}));
  EXPECT_EQ(tensors[1]->type, (TensorType{DType::kF32, {}}));
  EXPECT_EQ(tensors[2]->type, (TensorType{DType::kF32, {0}}));
  EXPECT_EQ(tensors[3]->type, (TensorType{DType::kF32, {2}}));
  EXPECT_EQ(tensors[0]->as<float>()[1], 2);
  EXPECT_EQ(*tensors[1]->as<float>(), 3);
  EXPECT_EQ(tensors[3]->as<float>()[1], 5);
  EXPECT_THAT(unpack_sequence(floats({}), rows({})), IsEmpty());
}

TEST(LateValues, RowsThatDoNotDescribeTheElementsAreRefused) {
  EXPECT_THAT(error_of(floats({1, 2}), rows({1, 3, 1})),
              HasSubstr("a tensor of 3 elements, of which 2 are there"));
  EXPECT_THAT(error_of(floats({1, 2}), rows({1, 1, 1})), HasSubstr("1 of its 2 elements"));
  EXPECT_THAT(error_of(floats({1}), rows({3, 1, 1})), HasSubstr("a tensor of 3 dimensions, not 0 to 2"));
  EXPECT_THAT(error_of(floats({1}), rows({-1, 1, 1})), HasSubstr("a tensor of -1 dimensions"));
  EXPECT_THAT(error_of(floats({1}), rows({1, -1, 1})), HasSubstr("a dimension of -1"));
  const int64_t huge = int64_t{1} << 62;
  EXPECT_THAT(error_of(floats({1}), rows({2, huge, 4})), HasSubstr("a dimension of 4"));
  EXPECT_THAT(error_of(floats({1}), floats({1})), HasSubstr("are no sequence"));
}

TEST(LateValues, OutputsArePutTogether) {
  const std::vector<NamedConstant> outputs = {
      {"x", floats({9})},     {"y[]", floats({1, 2})}, {"y[].dims", rows({1, 1, 1, 1, 1, 1})},
      {"p?", truth(true)},    {"p", floats({3})},      {"q?", truth(false)},
      {"q", floats({})},      {"r?", truth(false)},    {"r[]", floats({})},
      {"r[].dims", rows({})}, {"s?", truth(true)},     {"s[]", floats({})},
      {"s[].dims", rows({})}};
  const UnpackedOutputs unpacked = unpack_outputs(outputs);
  EXPECT_THAT(names_of(unpacked), ElementsAre("x", "y[0]", "y[1]", "p"));
  EXPECT_THAT(unpacked.sequences, ElementsAre("s", "y"));
  EXPECT_THAT(unpacked.absent, ElementsAre("q", "r"));
}

TEST(LateValues, TensorsStayTensorsWhateverTheyAreCalled) {
  const std::vector<NamedConstant> outputs = {{"really?", truth(false)}, {"really", floats({1})},
                                              {"x[]", floats({2, 3})},   {"x[].dims", rows({1, 2, 1})},
                                              {"p?", truth(false)},      {"p", floats({4})},
                                              {"last?", floats({5})}};
  const UnpackedOutputs unpacked = unpack_outputs(outputs, {"really?", "really", "x[]", "x[].dims", "last?"});
  EXPECT_THAT(names_of(unpacked), ElementsAre("really?", "really", "x[]", "x[].dims", "last?"));
  EXPECT_THAT(unpacked.sequences, IsEmpty());
  EXPECT_THAT(unpacked.absent, ElementsAre("p"));
}

TEST(LateValues, OutputsThatDoNotBelongTogetherAreRefused) {
  EXPECT_THROW(unpack_outputs({{"y[]", floats({})}}), Error);
  EXPECT_THROW(unpack_outputs({{"y[]", floats({})}, {"z[].dims", rows({})}}), Error);
  EXPECT_THROW(unpack_outputs({{"y?", floats({1})}, {"y", floats({1})}}), Error);
}

}  // namespace
}  // namespace gantry
