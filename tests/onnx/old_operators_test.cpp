// Operators of old operator sets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "host/support/error.h"
#include "tests/onnx/model_text.h"
#include "tests/onnx/one_node.h"

namespace gantry {
namespace {

using ::testing::ElementsAre;
using testing::interpret_function;
using testing::OneNode;

// One input says how often, another which axis, both of the data's type.
TEST(OldOperators, Tile1RepeatsOneAxis) {
  const std::string text =
      "ir_version: 8 opset_import { version: 1 } graph { name: 'g' "
      "initializer { name: 'times' dims: 1 data_type: 1 float_data: 2 } "
      "initializer { name: 'axis' dims: 1 data_type: 1 float_data: 1 } "
      "node { op_type: 'Tile' input: 'x' input: 'times' input: 'axis' output: 'y' } "
      "input { name: 'x' type { tensor_type { elem_type: 1 shape { dim { dim_value: 2 } dim { dim_value: 2 } "
      "} } } } "
      "output { name: 'y' } }";
  onnx::ModelProto proto;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto));
  const Graph graph = import_onnx_bytes(proto.SerializeAsString(), ".");
  const std::vector<float> x{1, 2, 3, 4};
  const ConstantPtr y =
      interpret_function(graph.main, {make_constant({DType::kF32, {2, 2}}, x.data())}).at(0);
  EXPECT_EQ(y->type.shape, (Shape{2, 4}));
  EXPECT_THAT(std::vector<float>(y->as<float>(), y->as<float>() + 8), ElementsAre(1, 2, 1, 2, 3, 4, 3, 4));
}

TEST(OldOperators, NormsOfWindowsHadAFloatForP) {
  OneNode pool("", "LpPool", 1);
  pool.input<float>(DType::kF32, {1, 1, 2, 2}, {1, -2, 2, 4})
      .with_list("kernel_shape", {2, 2})
      .with("p", 2.0);
  EXPECT_THAT(pool.run<float>(DType::kF32), ElementsAre(5));
  OneNode global("", "GlobalLpPool", 1);
  global.input<float>(DType::kF32, {1, 1, 2, 2}, {1, -2, 2, 4}).with("p", 1.0);
  EXPECT_THAT(global.run<float>(DType::kF32), ElementsAre(9));
  OneNode half("", "GlobalLpPool", 1);
  half.input<float>(DType::kF32, {1, 1, 2, 2}, {1, -2, 2, 4}).with("p", 1.5);
  EXPECT_THROW(half.results(), Error);
}

TEST(OldOperators, Upsample1HasAScaleForHeightAndForWidth) {
  OneNode node("", "Upsample", 1);
  node.input<float>(DType::kF32, {1, 1, 1, 2}, {3, 4}).with("height_scale", 2.0).with("width_scale", 3.0);
  EXPECT_EQ(node.results().at(0)->type.shape, (Shape{1, 1, 2, 6}));
  EXPECT_THAT(node.run<float>(DType::kF32), ElementsAre(3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4));
}

TEST(OldOperators, BatchNormalization7HasStatisticsOfElements) {
  OneNode node("", "BatchNormalization", 7);
  node.input<float>(DType::kF32, {2, 1, 2}, {1, 2, 3, 6}).with("spatial", int64_t{0}).with("epsilon", 0.0);
  for (const std::vector<float>& statistic : {std::vector<float>{1, 2}, {0, 10}, {1, 4}, {4, 1}})
    node.input<float>(DType::kF32, {1, 2}, statistic);
  EXPECT_THAT(node.run<float>(DType::kF32), ElementsAre(0, 6, 1, 14));
}

// ONNX has it since operator set 17; ONNX Runtime saves it in models of their own operator set.
TEST(OldOperators, LayerNormalizationIsTakenAsOnnxRuntimeFusesIt) {
  OneNode node("", "LayerNormalization", 12);
  node.input<float>(DType::kF32, {1, 2}, {1, 3})
      .input<float>(DType::kF32, {2}, {1, 2})
      .input<float>(DType::kF32, {2}, {0, 1})
      .with("epsilon", 0.0);
  EXPECT_THAT(node.run<float>(DType::kF32), ElementsAre(-1, 3));
}

TEST(OldOperators, ScaledTanhHasAFactorOnEitherSide) {
  const std::vector<float> x{-3, -0.5, 0, 0.25, 20};
  OneNode node("", "ScaledTanh", 1);
  node.input<float>(DType::kF32, {5}, x).with("alpha", 1.7159).with("beta", 0.6666667);
  const std::vector<float> y = node.run<float>(DType::kF32);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(y[i], 1.7159 * std::tanh(0.6666667 * x[i]), 2e-6) << x[i];
}

TEST(OldOperators, Selu1HasDefaultsOfItsOwn) {
  for (const auto& [opset, gamma] : {std::pair{5, 1.0507F}, {6, 1.05070102214813232421875F}}) {
    OneNode node("", "Selu", opset);
    node.input<float>(DType::kF32, {2}, {1, -INFINITY});
    EXPECT_THAT(node.run<float>(DType::kF32),
                ElementsAre(gamma, ::testing::FloatNear(-gamma * (opset < 6 ? 1.6732F : 1.6732632F), 1e-6F)));
  }
}

}  // namespace
}  // namespace gantry
