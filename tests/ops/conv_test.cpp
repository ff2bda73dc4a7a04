// Convolutions and matrix products in every weight layout against loops written out here.
#include "host/ops/conv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "host/ops/dense.h"
#include "host/ops/op.h"
#include "host/ops/pool.h"
#include "host/support/error.h"
#include "host/tensor/interpret.h"

namespace gantry {
namespace {

/// Small integers, so that sums are exact in any order.
std::vector<float> numbers(int64_t count, int seed) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((i * 7 + static_cast<size_t>(seed) * 13) % 11) - 5;
  return values;
}
ConstantPtr constant(const Shape& shape, const std::vector<float>& values) {
  return make_constant({DType::kF32, shape}, values.data());
}
std::vector<float> run(std::string_view op, std::shared_ptr<Attrs> attrs,
                       const std::vector<ConstantPtr>& inputs) {
  Function f;
  std::vector<Value*> values;
  for (const auto& input : inputs) values.push_back(f.add_parameter("x", input->type));
  Node* node = infer_and_add(f, *op_set().find(op), attrs, values, {"node"});
  std::vector<Tensor> tensors;
  std::map<const OperationNode*, ConstantPtr> data;
  for (const auto& input : inputs) {
    tensors.push_back(placeholder(to_exprs(input->type.shape), DType::kF32, "x"));
    data[tensors.back().op().get()] = input;
  }
  ConstantPtr result = interpret(op_def(*node).compute(*node, tensors), data).at(0);
  EXPECT_EQ(result->type, node->result()->type);
  return {result->as<float>(), result->as<float>() + result->size / sizeof(float)};
}

/// A 2-d convolution of one image with padding 1, stride 2; data (H, W, C), weight (O, C/groups, 3, 3).
struct Case {
  int64_t h = 5, w = 6, channels = 4, outputs = 6, groups = 1;
  std::vector<float> data = numbers(h * w * channels, 1);
  std::vector<float> weight = numbers(outputs * channels / groups * 9, 2);
  int64_t out_h = (h + 2 - 3) / 2 + 1, out_w = (w + 2 - 3) / 2 + 1;

  float weight_at(int64_t o, int64_t i, int64_t ky, int64_t kx) const {
    return weight[static_cast<size_t>(((o * (channels / groups) + i) * 3 + ky) * 3 + kx)];
  }
  std::vector<float> expected() const {
    std::vector<float> y;
    for (int64_t oy = 0; oy < out_h; ++oy)
      for (int64_t ox = 0; ox < out_w; ++ox)
        for (int64_t o = 0; o < outputs; ++o) y.push_back(element(oy, ox, o));
    return y;
  }
  float element(int64_t oy, int64_t ox, int64_t o) const {
    int64_t per_group = channels / groups, first = o / (outputs / groups) * per_group;
    float total = 0;
    for (int64_t i = 0; i < per_group; ++i)
      for (int64_t ky = 0; ky < 3; ++ky)
        for (int64_t kx = 0; kx < 3; ++kx) {
          int64_t y = oy * 2 + ky - 1, x = ox * 2 + kx - 1;
          if (y < 0 || x < 0 || y >= h || x >= w) continue;
          total += data[static_cast<size_t>((y * w + x) * channels + first + i)] * weight_at(o, i, ky, kx);
        }
    return total;
  }
  std::shared_ptr<ConvAttrs> attrs() const {
    auto a = std::make_shared<ConvAttrs>();
    a->channels = outputs;
    a->kernel = {3, 3};
    a->strides = {2, 2};
    a->dilations = {1, 1};
    a->padding = {1, 1, 1, 1};
    a->groups = groups;
    a->channels_last = true;
    return a;
  }
  ConstantPtr image() const { return constant({1, h, w, channels}, data); }
  /// The same as (1, C, H, W).
  ConstantPtr plain_image() const {
    std::vector<float> planes;
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t at = 0; at < h * w; ++at) planes.push_back(data[static_cast<size_t>(at * channels + c)]);
    return constant({1, channels, h, w}, planes);
  }
  /// (blocks, 3, 3, C, block), without groups.
  ConstantPtr packed_weight(int64_t block) const {
    int64_t blocks = (outputs + block - 1) / block;
    std::vector<float> packed(static_cast<size_t>(blocks * 9 * channels * block));
    for (int64_t o = 0; o < outputs; ++o)
      for (int64_t k = 0; k < 9; ++k)
        for (int64_t i = 0; i < channels; ++i)
          packed[static_cast<size_t>(((o / block * 9 + k) * channels + i) * block + o % block)] =
              weight_at(o, i, k / 3, k % 3);
    return constant({blocks, 3, 3, channels, block}, packed);
  }
};

TEST(Conv, ChannelsLastWithPlainWeightsMatchesTheDefinition) {
  Case c;
  EXPECT_EQ(run("nn.conv", c.attrs(), {c.image(), constant({c.outputs, c.channels, 3, 3}, c.weight)}),
            c.expected());
}

TEST(Conv, PackedWeightsMatchTheDefinitionWhenBlocksDoNotDivide) {
  Case c;
  auto attrs = c.attrs();
  attrs->form.weight_block = 4;
  EXPECT_EQ(run("nn.conv", attrs, {c.image(), c.packed_weight(4)}), c.expected());
}

TEST(Conv, PlainDataGiveTheSameAsChannelsLastOnes) {
  Case c{.channels = 3};
  auto attrs = c.attrs();
  attrs->form.weight_block = 4;
  attrs->form.plain_data = true;
  EXPECT_EQ(run("nn.conv", attrs, {c.plain_image(), c.packed_weight(4)}), c.expected());
}

TEST(Conv, OnlyAlgorithmsThatReadPlainDataTakeThem) {
  Case c;
  auto attrs = c.attrs();
  attrs->form.plain_data = true;
  EXPECT_THROW(run("nn.conv", attrs, {c.plain_image(), constant({c.outputs, c.channels, 3, 3}, c.weight)}),
               Error)
      << "weights that are not packed";
}

TEST(Conv, GroupedPackedWeightsMatchTheDefinition) {
  Case c{.groups = 2};
  constexpr int64_t kBlock = 2;
  int64_t per_out = c.outputs / c.groups, per_in = c.channels / c.groups,
          blocks = (per_out + kBlock - 1) / kBlock;
  std::vector<float> packed(static_cast<size_t>(c.groups * blocks * 9 * per_in * kBlock));
  for (int64_t o = 0; o < c.outputs; ++o)
    for (int64_t k = 0; k < 9; ++k)
      for (int64_t i = 0; i < per_in; ++i) {
        int64_t g = o / per_out, r = o % per_out;
        packed[static_cast<size_t>((((g * blocks + r / kBlock) * 9 + k) * per_in + i) * kBlock +
                                   r % kBlock)] = c.weight_at(o, i, k / 3, k % 3);
      }
  auto attrs = c.attrs();
  attrs->form.weight_block = kBlock;
  EXPECT_EQ(run("nn.conv", attrs, {c.image(), constant({c.groups, blocks, 3, 3, per_in, kBlock}, packed)}),
            c.expected());
}

TEST(Conv, DepthwisePackedWeightsMatchTheDefinition) {
  Case c{.outputs = 4, .groups = 4};
  std::vector<float> packed(static_cast<size_t>(9 * c.channels));
  for (int64_t o = 0; o < c.outputs; ++o)
    for (int64_t k = 0; k < 9; ++k)
      packed[static_cast<size_t>(k * c.channels + o)] = c.weight_at(o, 0, k / 3, k % 3);
  auto attrs = c.attrs();
  attrs->form.depthwise_packed = true;
  EXPECT_EQ(run("nn.conv", attrs, {c.image(), constant({3, 3, c.channels}, packed)}), c.expected());
}

TEST(Conv, SymbolicSpatialDimensionsGiveSymbolicResults) {
  Function f;
  Value* x = f.add_parameter("x", {DType::kF32, {Dim::symbol("N"), 5, Dim::symbol("W"), 4}});
  Value* w = f.add_parameter("w", {DType::kF32, {6, 4, 3, 3}});
  Node* node = infer_and_add(f, op_set().get(nn::conv), Case().attrs(), {x, w}, {"conv"});
  EXPECT_EQ(node->result()->type.shape,
            (Shape{Dim::symbol("N"), 3, floordiv(Dim::symbol("W") - 1, 2) + 1, 6}));
}

TEST(Conv, AWeightThatContradictsTheDataIsAnErrorThatNamesTheNode) {
  Function f;
  Value* x = f.add_parameter("x", {DType::kF32, {1, 5, 6, 4}});
  Value* w = f.add_parameter("w", {DType::kF32, {6, 3, 3, 3}});
  try {
    infer_and_add(f, op_set().get(nn::conv), Case().attrs(), {x, w}, {"Conv_7"});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    EXPECT_THAT(error.what(),
                testing::AllOf(testing::HasSubstr("Conv_7"), testing::HasSubstr("(6, 4, 3, 3)")));
  }
}

TEST(Conv, OpenChannelsAreAsManyAsTheWeightsOfItsGroupsSay) {
  const Dim c = Dim::symbol("C"), k = Dim::symbol("K");
  for (const Dim& per_group : {Dim(1), k}) {
    Function f;
    Value* x = f.add_parameter("x", {DType::kF32, {1, 5, 6, c}});
    Value* w = f.add_parameter("w", {DType::kF32, {4, per_group, 3, 3}});
    infer_and_add(f, op_set().get(nn::conv), Case{.outputs = 4, .groups = 4}.attrs(), {x, w}, {"conv"});
    ASSERT_EQ(f.constraints.size(), 1U);
    EXPECT_EQ(f.constraints[0].left, per_group * 4);
    EXPECT_EQ(f.constraints[0].right, c);
  }
}

TEST(Conv, OpenChannelsMakeGroupsWhereverTheirWeightsLie) {
  Function f;
  Value* x = f.add_parameter("x", {DType::kF32, {1, 5, 6, Dim::symbol("C")}});
  Value* w = f.add_parameter("w", {DType::kF32, {3, 3, Dim::symbol("D")}});
  auto attrs = Case{.outputs = 4, .groups = 4}.attrs();
  attrs->form.depthwise_packed = true;
  infer_and_add(f, op_set().get(nn::conv), attrs, {x, w}, {"conv"});
  for (const int64_t c : {4, 5, 6, 7, 8}) {
    const bool hold = std::ranges::all_of(f.constraints, [&](const DimConstraint& each) {
      const std::map<std::string, int64_t> sizes{{"C", c}, {"D", c}};
      return each.left.evaluate(sizes) == each.right.evaluate(sizes);
    });
    EXPECT_EQ(hold, c % 4 == 0) << c;
  }
}

TEST(ConvTranspose, OpenChannelsMakeGroups) {
  const auto constraints_with = [](const Dim& inputs) {
    Function f;
    Value* x = f.add_parameter("x", {DType::kF32, {1, Dim::symbol("C"), 5}});
    Value* w = f.add_parameter("w", {DType::kF32, {inputs, 2, 3}});
    auto attrs = std::make_shared<ConvTransposeAttrs>();
    attrs->kernel = {3};
    attrs->strides = attrs->dilations = {1};
    attrs->padding = {0, 0};
    attrs->output_padding = {0};
    attrs->groups = 4;
    infer_and_add(f, op_set().get(nn::conv_transpose), attrs, {x, w}, {"node"});
    return f.constraints;
  };
  EXPECT_EQ(constraints_with(8).size(), 1U) << "that there are eight";
  EXPECT_THROW(constraints_with(6), Error);
  const std::vector<DimConstraint> needed = constraints_with(Dim::symbol("C"));
  ASSERT_EQ(needed.size(), 1U);
  for (const int64_t c : {4, 5, 6, 8})
    EXPECT_EQ(needed[0].left.evaluate({{"C", c}}) == needed[0].right.evaluate({{"C", c}}), c % 4 == 0) << c;
}

TEST(Dense, PackedWeightsGiveTheSameAsPlainOnes) {
  constexpr int64_t kRows = 3, kDepth = 5, kUnits = 7, kBlock = 4;
  std::vector<float> x = numbers(kRows * kDepth, 3), w = numbers(kDepth * kUnits, 4),
                     expected(kRows * kUnits);
  std::vector<float> packed(2 * kDepth * kBlock);
  for (int64_t k = 0; k < kDepth; ++k)
    for (int64_t n = 0; n < kUnits; ++n) {
      float value = w[static_cast<size_t>(k * kUnits + n)];
      packed[static_cast<size_t>((n / kBlock * kDepth + k) * kBlock + n % kBlock)] = value;
      for (int64_t m = 0; m < kRows; ++m)
        expected[static_cast<size_t>(m * kUnits + n)] += x[static_cast<size_t>(m * kDepth + k)] * value;
    }
  auto plain = std::make_shared<DenseAttrs>();
  plain->units = kUnits;
  auto blocked = std::make_shared<DenseAttrs>(*plain);
  blocked->form.weight_block = kBlock;
  EXPECT_EQ(run("nn.dense", plain, {constant({kRows, kDepth}, x), constant({kDepth, kUnits}, w)}), expected);
  EXPECT_EQ(run("nn.dense", blocked, {constant({kRows, kDepth}, x), constant({2, kDepth, kBlock}, packed)}),
            expected);
}

TEST(Pool, ChannelsLastAverageCountsOnlyElementsInside) {
  auto attrs = std::make_shared<PoolAttrs>();
  attrs->kernel = {2};
  attrs->strides = {2};
  attrs->dilations = {1};
  attrs->padding = {1, 0};
  attrs->channels_last = true;
  EXPECT_EQ(run("nn.avg_pool", attrs, {constant({1, 3, 2}, {2, 4, 6, 8, 10, 12})}),
            (std::vector<float>{2, 4, 8, 10}));
}

}  // namespace
}  // namespace gantry
