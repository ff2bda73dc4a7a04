// Normalisations against the definition in float64.
#include "host/ops/norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "host/ops/op.h"
#include "host/support/error.h"
#include "host/tensor/interpret.h"

namespace gantry {
namespace {

ConstantPtr constant(const Shape& shape, const std::vector<float>& values) {
  return make_constant({DType::kF32, shape}, values.data());
}

constexpr int64_t kBatch = 2, kChannels = 3, kHeight = 4, kWidth = 5, kSpatial = kHeight * kWidth;

/// Where element (n, c, s) of an image is.
size_t position(bool channels_last, int64_t n, int64_t c, int64_t s) {
  return static_cast<size_t>(channels_last ? (n * kSpatial + s) * kChannels + c
                                           : (n * kChannels + c) * kSpatial + s);
}

std::vector<double> expected(const std::vector<float>& x, bool last, int64_t normalized,
                             const std::vector<float>& scale, const std::vector<float>& bias,
                             double epsilon) {
  std::vector<double> y(x.begin(), x.end());
  for (int64_t n = 0; n < kBatch; ++n)
    for (int64_t c = 0; c < normalized; ++c) {
      double mean = 0, variance = 0;
      for (int64_t s = 0; s < kSpatial; ++s) mean += x[position(last, n, c, s)] / double{kSpatial};
      for (int64_t s = 0; s < kSpatial; ++s)
        variance += std::pow(x[position(last, n, c, s)] - mean, 2) / double{kSpatial};
      for (int64_t s = 0; s < kSpatial; ++s)
        y[position(last, n, c, s)] = (x[position(last, n, c, s)] - mean) / std::sqrt(variance + epsilon) *
                                         scale[static_cast<size_t>(c)] +
                                     bias[static_cast<size_t>(c)];
    }
  return y;
}

class InstanceNorm : public ::testing::TestWithParam<std::tuple<bool, int64_t>> {};

TEST_P(InstanceNorm, NormalisesTheFirstChannelsAndPassesTheOthers) {
  const auto [last, normalized] = GetParam();
  const int64_t count = normalized > 0 ? normalized : kChannels;
  std::vector<float> x(kBatch * kChannels * kSpatial), scale{2, 0.5, -1}, bias{1, -3, 0.25};
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 7919) % 31) * 0.25f + 3;
  scale.resize(static_cast<size_t>(count));
  bias.resize(static_cast<size_t>(count));
  auto attrs = std::make_shared<GroupNormAttrs>();
  attrs->channels_last = last;
  attrs->normalized = normalized;
  const Shape shape =
      last ? Shape{kBatch, kHeight, kWidth, kChannels} : Shape{kBatch, kChannels, kHeight, kWidth};
  const std::vector<ConstantPtr> inputs{constant(shape, x), constant({count}, scale),
                                        constant({count}, bias)};
  Function f;
  std::vector<Value*> values;
  std::vector<Tensor> tensors;
  std::map<const OperationNode*, ConstantPtr> data;
  for (const auto& input : inputs) {
    values.push_back(f.add_parameter("x", input->type));
    tensors.push_back(placeholder(to_exprs(input->type.shape), DType::kF32, "x"));
    data[tensors.back().op().get()] = input;
  }
  Node* node = infer_and_add(f, op_set().get(nn::instance_norm), attrs, values, {"node"});
  const ConstantPtr result = interpret(op_def(*node).compute(*node, tensors), data).at(0);
  const std::vector<double> y = expected(x, last, count, scale, bias, attrs->epsilon);
  for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(result->as<float>()[i], y[i], 1e-5) << i;
}

INSTANTIATE_TEST_SUITE_P(Forms, InstanceNorm,
                         ::testing::Combine(::testing::Bool(), ::testing::Values(int64_t{0}, int64_t{2})));

TEST(InstanceNormErrors, MoreChannelsThanThereAreCannotBeNormalised) {
  Function f;
  Value* x = f.add_parameter("x", {DType::kF32, {1, 3, 4}});
  Value* s = f.add_parameter("s", {DType::kF32, {5}});
  auto attrs = std::make_shared<GroupNormAttrs>();
  attrs->normalized = 5;
  EXPECT_THROW(infer_and_add(f, op_set().get(nn::instance_norm), attrs, {x, s, s}, {"node"}), Error);
}

/// The constraints of groups of C channels, whose scale and bias have `scale` elements.
std::vector<DimConstraint> constraints_of_groups(int64_t groups, const Dim& scale) {
  Function f;
  Value* x = f.add_parameter("x", {DType::kF32, {1, Dim::symbol("C"), 4}});
  Value* s = f.add_parameter("s", {DType::kF32, {scale}});
  auto attrs = std::make_shared<GroupNormAttrs>();
  attrs->groups = groups;
  infer_and_add(f, op_set().get(nn::group_norm), attrs, {x, s, s}, {"node"});
  return f.constraints;
}

TEST(GroupNorm, OfOpenChannelsIsOfWholeGroups) {
  const std::vector<DimConstraint> needed = constraints_of_groups(2, Dim::symbol("C"));
  ASSERT_EQ(needed.size(), 1U);
  for (const int64_t c : {0, 1, 2, 3, 4})
    EXPECT_EQ(needed[0].left.evaluate({{"C", c}}) == needed[0].right.evaluate({{"C", c}}), c % 2 == 0) << c;
}

TEST(GroupNorm, SaysNothingOfGroupsThatAreWholeAnyway) {
  EXPECT_TRUE(constraints_of_groups(1, Dim::symbol("C")).empty());
  const std::vector<DimConstraint> needed = constraints_of_groups(2, 6);
  ASSERT_EQ(needed.size(), 1U) << "that there are six";
  EXPECT_EQ(needed[0].left, Dim(6));
  EXPECT_EQ(needed[0].right, Dim::symbol("C"));
  EXPECT_THROW(constraints_of_groups(4, 6), Error);
}

}  // namespace
}  // namespace gantry
