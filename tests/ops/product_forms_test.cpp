// Convolutions and matrix products in the forms for tiled matrix products, against float64 loops written out
// here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "host/ops/conv.h"
#include "host/ops/dense.h"
#include "host/ops/op.h"
#include "host/ops/tiles.h"
#include "host/support/error.h"
#include "host/tensor/interpret.h"

namespace gantry {
namespace {

size_t count_of(const Shape& shape) {
  return static_cast<size_t>(element_count(shape).value());
}

ConstantPtr noise(const Shape& shape, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::normal_distribution<float> normal;
  std::vector<float> values(count_of(shape));
  for (float& value : values) value = normal(random);
  return make_constant({DType::kF32, shape}, values.data());
}

struct Result {
  std::vector<float> values;
  std::vector<std::string> stages;  ///< their names, producers first
};

Result run(std::string_view op, const std::shared_ptr<Attrs>& attrs, const std::vector<ConstantPtr>& inputs) {
  Function f;
  std::vector<Value*> values;
  for (const auto& input : inputs) values.push_back(f.add_parameter("x", input->type));
  Node* node = infer_and_add(f, *op_set().find(op), attrs, values, {"node"});
  std::vector<Tensor> tensors;
  std::map<const OperationNode*, ConstantPtr> data;
  for (const auto& input : inputs) {
    tensors.push_back(placeholder(to_exprs(input->type.shape), input->type.dtype, "x"));
    data[tensors.back().op().get()] = input;
  }
  const std::vector<Tensor> outputs = op_def(*node).compute(*node, tensors);
  Result result;
  for (const Operation& stage : topological_order(outputs)) {
    if (stage->kind == OperationNode::Kind::kCompute) result.stages.push_back(stage->name);
  }
  ConstantPtr value = interpret(outputs, data).at(0);
  EXPECT_EQ(value->type, node->result()->type);
  result.values.assign(value->as<float>(), value->as<float>() + value->size / sizeof(float));
  return result;
}

/// Largest difference, divided by the largest magnitude expected.
double error_of(const std::vector<float>& actual, const std::vector<double>& expected) {
  EXPECT_EQ(actual.size(), expected.size());
  double worst = 0, largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(actual[i]) - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return worst / largest;
}

/// A 2-d convolution of (N, H, W, C) by (O, C/groups, kh, kw).
struct Convolution {
  int64_t n = 1, h = 7, w = 6, channels = 4, outputs = 6, kernel_h = 3, kernel_w = 3, stride = 1,
          dilation = 1;
  std::vector<int64_t> padding = {1, 1, 1, 1};  ///< top, left, bottom, right
  int64_t groups = 1;
  ConstantPtr data = noise({n, h, w, channels}, 1);
  ConstantPtr weight = noise({outputs, channels / groups, kernel_h, kernel_w}, 2);

  int64_t out_h() const { return (h + padding[0] + padding[2] - dilation * (kernel_h - 1) - 1) / stride + 1; }
  int64_t out_w() const { return (w + padding[1] + padding[3] - dilation * (kernel_w - 1) - 1) / stride + 1; }

  std::shared_ptr<ConvAttrs> attrs(ConvAlgorithm algorithm) const {
    auto a = std::make_shared<ConvAttrs>();
    a->channels = outputs;
    a->kernel = {kernel_h, kernel_w};
    a->strides = {stride, stride};
    a->dilations = {dilation, dilation};
    for (int64_t p : padding) a->padding.emplace_back(p);
    a->groups = groups;
    a->channels_last = true;
    a->form.algorithm = algorithm;
    return a;
  }

  double weight_at(int64_t o, int64_t i, int64_t y, int64_t x) const {
    return weight->as<float>()[((o * (channels / groups) + i) * kernel_h + y) * kernel_w + x];
  }
  double data_at(int64_t b, int64_t y, int64_t x, int64_t c) const {
    if (y < 0 || x < 0 || y >= h || x >= w) return 0;
    return data->as<float>()[((b * h + y) * w + x) * channels + c];
  }
  double element(int64_t b, int64_t oy, int64_t ox, int64_t o) const {
    const int64_t depth = channels / groups, first = o / (outputs / groups) * depth;
    double total = 0;
    for (int64_t ky = 0; ky < kernel_h; ++ky)
      for (int64_t kx = 0; kx < kernel_w; ++kx)
        for (int64_t i = 0; i < depth; ++i)
          total += weight_at(o, i, ky, kx) * data_at(b, oy * stride + ky * dilation - padding[0],
                                                     ox * stride + kx * dilation - padding[1], first + i);
    return total;
  }
  std::vector<double> expected() const {
    std::vector<double> y;
    for (int64_t b = 0; b < n; ++b)
      for (int64_t oy = 0; oy < out_h(); ++oy)
        for (int64_t ox = 0; ox < out_w(); ++ox)
          for (int64_t o = 0; o < outputs; ++o) y.push_back(element(b, oy, ox, o));
    return y;
  }
  /// (groups, kernel…, C/groups, O/groups)
  ConstantPtr gemm_weight() const {
    std::vector<float> packed;
    const int64_t depth = channels / groups, width = outputs / groups;
    for (int64_t g = 0; g < groups; ++g)
      for (int64_t y = 0; y < kernel_h; ++y)
        for (int64_t x = 0; x < kernel_w; ++x)
          for (int64_t i = 0; i < depth; ++i)
            for (int64_t o = 0; o < width; ++o)
              packed.push_back(static_cast<float>(weight_at(g * width + o, i, y, x)));
    Shape shape{kernel_h * kernel_w * depth, width};
    if (groups > 1) shape.insert(shape.begin(), groups);
    return make_constant({DType::kF32, shape}, packed.data());
  }
  Result by_gemm() const { return run("nn.conv", attrs(ConvAlgorithm::kGemm), {data, gemm_weight()}); }
  Result by_winograd(ConvAlgorithm algorithm) const {
    auto transform = std::make_shared<WinogradWeightAttrs>();
    transform->tile = winograd_tile(algorithm);
    const std::vector<float> values = run("nn.winograd_weight", transform, {weight}).values;
    const int64_t t = transform->tile + 2;
    return run("nn.conv", attrs(algorithm),
               {data, make_constant({DType::kF32, {t * t, channels, outputs}}, values.data())});
  }
};

using testing::ElementsAre;

TEST(GemmForm, AConvolutionIsAProductOfUnrolledWindows) {
  Convolution c{.n = 2};
  Result result = c.by_gemm();
  EXPECT_LT(error_of(result.values, c.expected()), 1e-6);
  EXPECT_THAT(result.stages, ElementsAre("im2col", "gemm", "gemm_output"));
}

TEST(GemmForm, AConvolutionMayStrideDilateAndPadUnevenly) {
  Convolution c{.h = 9, .w = 11, .kernel_h = 2, .stride = 2, .dilation = 2, .padding = {0, 3, 2, 1}};
  EXPECT_LT(error_of(c.by_gemm().values, c.expected()), 1e-6);
}

TEST(GemmForm, GroupsAreABatchOfProducts) {
  Convolution c{.channels = 6, .outputs = 9, .stride = 2, .groups = 3};
  EXPECT_LT(error_of(c.by_gemm().values, c.expected()), 1e-6);
}

TEST(GemmForm, APointwiseConvolutionReadsItsDataWithoutChecks) {
  Convolution c{.n = 2, .kernel_h = 1, .kernel_w = 1, .padding = {0, 0, 0, 0}};
  Result result = c.by_gemm();
  EXPECT_LT(error_of(result.values, c.expected()), 1e-6);
  EXPECT_THAT(result.stages, ElementsAre("gemm_operand", "gemm", "gemm_output"));
}

TEST(GemmForm, AWeightOfAnotherLayoutIsAnError) {
  Convolution c;
  EXPECT_THROW(run("nn.conv", c.attrs(ConvAlgorithm::kGemm), {c.data, c.weight}), Error);
}

TEST(Winograd, TilesOfTwoMatchTheDefinition) {
  Convolution c{.n = 2};
  EXPECT_LT(error_of(c.by_winograd(ConvAlgorithm::kWinograd2).values, c.expected()), 2e-6);
}

TEST(Winograd, TilesOfFourMatchTheDefinitionWhereTheyDoNotDivideTheResult) {
  Convolution c{.n = 2, .h = 9, .w = 10};
  EXPECT_LT(error_of(c.by_winograd(ConvAlgorithm::kWinograd4).values, c.expected()), 1e-5);
}

TEST(Winograd, PaddingMayBeUneven) {
  Convolution c{.padding = {0, 2, 1, 0}};
  EXPECT_LT(error_of(c.by_winograd(ConvAlgorithm::kWinograd2).values, c.expected()), 2e-6);
  EXPECT_LT(error_of(c.by_winograd(ConvAlgorithm::kWinograd4).values, c.expected()), 1e-5);
}

// The figures that host/ops/conv.h states for exact sums: the interpreter sums in f64.
TEST(Winograd, ErrorsOverManyChannelsAreAsStated) {
  Convolution c{.h = 8, .w = 8, .channels = 128, .outputs = 8};
  const std::vector<double> expected = c.expected();
  const double direct = error_of(c.by_gemm().values, expected),
               two = error_of(c.by_winograd(ConvAlgorithm::kWinograd2).values, expected),
               four = error_of(c.by_winograd(ConvAlgorithm::kWinograd4).values, expected);
  EXPECT_LT(direct, 1e-7);
  EXPECT_LT(two, 1.5e-7);
  EXPECT_LT(four, 2e-6);
}

TEST(Winograd, IsRefusedForWindowsItDoesNotFit) {
  Convolution c{.stride = 2};
  EXPECT_THROW(c.by_winograd(ConvAlgorithm::kWinograd2), Error);
}

/// A unit that no CPU has: pairs of `element`, in blocks of 4 along the depth by two columns.
TileGeometry unit_of_pairs(DType element) {
  return {.name = "pairs",
          .element = element,
          .sum = DType::kI32,
          .rows = 1,
          .columns = 2,
          .depth = 2,
          .fewer_rows = false,
          .fast_parts = false,
          .registers = 32,
          .row_tiles = 1,
          .column_tiles = 1,
          .block_depth = 4,
          .side_by_side = 2,
          .row_pack = 1,
          .column_pack = 2};
}

/// A weight (3, 3), as dense layers have it, packed for that unit: two blocks of columns by one of the depth.
template <typename Element>
std::vector<Element> packed_pairs(DType element, const std::vector<Element>& weight) {
  TileWeightAttrs attrs;
  attrs.column_tiles = 1;
  attrs.dense = true;
  const ConstantPtr packed =
      pack_weight(unit_of_pairs(element), attrs, *make_constant({element, {3, 3}}, weight.data()),
                  {element, {2, 1, 1, 1, 1, 1, 2, 4}});
  return {packed->as<Element>(), packed->as<Element>() + packed->size / sizeof(Element)};
}

TEST(TileWeight, IntegersOfAnyWidthThatUnitsMultiplyArePackedWhole) {
  // Each column's pairs of the depth, then the next column's; zeros beyond the third of both.
  EXPECT_EQ(packed_pairs<int16_t>(DType::kI16, {1000, -2000, 3000, 4000, 5000, 6000, -32768, 8000, 32767}),
            (std::vector<int16_t>{1000, 4000, -2000, 5000, -32768, 0, 8000, 0,  //
                                  3000, 6000, 0, 0, 32767, 0, 0, 0}));
  EXPECT_EQ(packed_pairs<int8_t>(DType::kI8, {1, -2, 3, 4, 5, 6, -128, 8, 127}),
            (std::vector<int8_t>{1, 4, -2, 5, -128, 0, 8, 0, 3, 6, 0, 0, 127, 0, 0, 0}));
}

TEST(TileWeight, ElementsThatNothingPacksAreAnError) {
  try {
    packed_pairs<int64_t>(DType::kI64, std::vector<int64_t>(9, 1));
    FAIL() << "they were packed";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInternal);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("i64"));
  }
}

TEST(TileWeight, BlocksOfMoreColumnsThanCanBeCountedAreRefused) {
  auto attrs = std::make_shared<TileWeightAttrs>();
  attrs->column_tiles = int64_t{1} << 62;
  Function f;
  Value* w = f.add_parameter("w", {DType::kF32, {2, 4, 5, 5}});
  EXPECT_THROW(infer_and_add(f, *op_set().find("nn.tile_weight"), attrs, {w}, {"node"}), Error);
}

std::vector<double> product(const ConstantPtr& a, const ConstantPtr& b, int64_t batch, int64_t a_step,
                            int64_t b_step, int64_t m, int64_t n, int64_t depth, bool transpose_a,
                            bool transpose_b) {
  std::vector<double> y;
  for (int64_t g = 0; g < batch; ++g)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double total = 0;
        for (int64_t k = 0; k < depth; ++k)
          total +=
              static_cast<double>(a->as<float>()[g * a_step + (transpose_a ? k * m + i : i * depth + k)]) *
              static_cast<double>(b->as<float>()[g * b_step + (transpose_b ? j * depth + k : k * n + j)]);
        y.push_back(total);
      }
  return y;
}

TEST(GemmForm, DenseRunsOverAllRows) {
  auto attrs = std::make_shared<DenseAttrs>();
  attrs->units = 5;
  attrs->form.gemm = true;
  ConstantPtr x = noise({2, 3, 4, 7}, 1), w = noise({7, 5}, 2);
  Result result = run("nn.dense", attrs, {x, w});
  EXPECT_LT(error_of(result.values, product(x, w, 1, 0, 0, 24, 5, 7, false, false)), 1e-6);
  EXPECT_THAT(result.stages, ElementsAre("gemm_operand", "gemm", "gemm_output"));
  ConstantPtr matrix = noise({3, 7}, 3), vector = noise({7}, 4);
  EXPECT_THAT(run("nn.dense", attrs, {matrix, w}).stages, ElementsAre("gemm", "gemm_output"));
  EXPECT_LT(error_of(run("nn.dense", attrs, {vector, w}).values,
                     product(vector, w, 1, 0, 0, 1, 5, 7, false, false)),
            1e-6);
}

// 255 * -384, 255 * 255, and rows of 1, 2, 3: sums that no byte and no product of bytes in 16 bits holds.
TEST(PlainForm, DenseOfBytesHasSumsOfIntegers) {
  const uint8_t x[] = {255, 255, 255, 1, 2, 3};
  const int8_t w[] = {-128, 127, -128, 127, -128, 1};
  auto attrs = std::make_shared<DenseAttrs>();
  attrs->units = 2;
  const Result y = run("nn.dense", attrs,
                       {make_constant({DType::kU8, {2, 3}}, x), make_constant({DType::kI8, {3, 2}}, w)});
  std::vector<int32_t> sums;
  for (const float bits : y.values) sums.push_back(std::bit_cast<int32_t>(bits));
  EXPECT_EQ(sums, (std::vector<int32_t>{-97920, 65025, -768, 384}));
  attrs->form.weight_block = 2;
  EXPECT_THROW(run("nn.dense", attrs,
                   {make_constant({DType::kU8, {2, 3}}, x), make_constant({DType::kI8, {1, 3, 2}}, w)}),
               Error);
}

TEST(GemmForm, MatmulBroadcastsAndTransposesItsOperands) {
  for (bool transpose_a : {false, true}) {
    for (bool transpose_b : {false, true}) {
      auto attrs = std::make_shared<MatmulAttrs>();
      attrs->transpose_a = transpose_a;
      attrs->transpose_b = transpose_b;
      attrs->form.gemm = true;
      ConstantPtr a = noise(transpose_a ? Shape{2, 3, 7, 4} : Shape{2, 3, 4, 7}, 1);
      ConstantPtr b = noise(transpose_b ? Shape{5, 7} : Shape{7, 5}, 2);
      EXPECT_LT(error_of(run("matmul", attrs, {a, b}).values,
                         product(a, b, 6, 28, 0, 4, 5, 7, transpose_a, transpose_b)),
                1e-6);
    }
  }
}

TEST(GemmForm, MatricesInPlaceAreReadDirectly) {
  auto attrs = std::make_shared<MatmulAttrs>();
  attrs->form.gemm = true;
  EXPECT_THAT(run("matmul", attrs, {noise({4, 7}, 1), noise({7, 5}, 2)}).stages,
              ElementsAre("gemm", "gemm_output"));
  EXPECT_THAT(run("matmul", attrs, {noise({6, 4, 7}, 1), noise({6, 7, 5}, 2)}).stages,
              ElementsAre("gemm", "gemm_output"));
}

}  // namespace
}  // namespace gantry
