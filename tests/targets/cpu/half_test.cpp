// Convolutions and matrix products in f16 on CPUs against float64: on this machine where it has avx512fp16,
// on an emulated AArch64 board, and their loops evaluated everywhere.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "host/codegen/find_target.h"
#include "host/costs/conv_model.h"
#include "host/costs/tile_model.h"
#include "host/loops/evaluate.h"
#include "host/loops/lower.h"
#include "host/ops/conv.h"
#include "host/ops/op.h"
#include "host/support/divide.h"
#include "host/targets/common/schedule_rules.h"
#include "host/tensor/interpret.h"
#include "tests/support/compiled_model.h"

namespace gantry {
namespace {

// Half-precision arithmetic without the tile registers, which a virtual machine of such a CPU may hide.
constexpr const char *kHere = "sapphirerapids-amx-tile", *kBoard = "cortex-a76";

bool runs_here() {
  const std::vector<std::string> features = find_target("native").features;
  return std::ranges::find(features, "avx512fp16") != features.end();
}

/// A result with the sum of its products' magnitudes, by which its error is bounded.
struct Reference {
  std::vector<double> values, magnitudes;
  void add(double value, double magnitude) {
    values.push_back(value);
    magnitudes.push_back(magnitude);
  }
};

/// Both operands rounded to 11 bits, then the f16 sums that Stage::sum_in_half describes.
constexpr double kBound = (2 + costs::kHalfChunk + costs::kHalfChunks) * 0x1p-11;
/// Largest difference by largest result that was seen, rounded up: errors are of both signs.
constexpr double kTypical = 2e-3;

void expect_near(const ConstantPtr& got, const Reference& reference, const std::string& what) {
  ASSERT_EQ(got->size, reference.values.size() * sizeof(float)) << what;
  double worst = 0, largest = 0;
  for (size_t i = 0; i < reference.values.size(); ++i) {
    const double difference = std::abs(double(got->as<float>()[i]) - reference.values[i]);
    ASSERT_LE(difference, kBound * reference.magnitudes[i] + 1e-6) << what << ", element " << i;
    worst = std::max(worst, difference);
    largest = std::max(largest, std::abs(reference.values[i]));
  }
  EXPECT_LT(worst, kTypical * largest) << what;
  EXPECT_GT(worst, 1e-6 * largest) << what << ": not in f16";
}

struct Layer {
  int64_t batch = 1, height = 9, width = 12, inputs = 64, outputs = 64, kernel = 3, stride = 1, dilation = 1,
          groups = 1, block = 64;
  std::vector<int64_t> padding{1, 1, 1, 1};  ///< top, left, bottom, right

  int64_t out(int64_t extent, size_t axis) const {
    return (extent + padding[axis] + padding[axis + 2] - dilation * (kernel - 1) - 1) / stride + 1;
  }
  int64_t out_height() const { return out(height, 0); }
  int64_t out_width() const { return out(width, 1); }
  int64_t group_inputs() const { return inputs / groups; }
  int64_t group_outputs() const { return outputs / groups; }
  int64_t blocks() const { return ceil_div(group_outputs(), block); }
  std::string str() const {
    return fmt::format("{}x{}x{}x{} -> {}, {}x{} by {}, dilation {}, {} groups, blocks of {}", batch, height,
                       width, inputs, outputs, kernel, kernel, stride, dilation, groups, block);
  }
};

/// Weights as alter_layout packs them, ((groups,) blocks, kernel, kernel, inputs, block).
Graph network(const Layer& l) {
  std::vector<int64_t> weight{l.blocks(), l.kernel, l.kernel, l.group_inputs(), l.block};
  if (l.groups > 1) weight.insert(weight.begin(), l.groups);
  const std::string text = fmt::format(
      "fn @main(%x: Tensor[({0}, {1}, {2}, {3}), f32]) -> Tensor[({0}, {4}, {5}, {6}), f32] {{\n"
      "  %u = cast(@w: Tensor[({7}), f32], to=f16)\n"
      "  %y = nn.conv(%x, %u, channels={6}, kernel=[{8}, {8}], strides=[{9}, {9}], dilations=[{10}, {10}], "
      "padding=({11}), groups={12}, weight_block={13}, channels_last=true)\n"
      "  return %y\n}}\n",
      l.batch, l.height, l.width, l.inputs, l.out_height(), l.out_width(), l.outputs, fmt::join(weight, ", "),
      l.kernel, l.stride, l.dilation, fmt::join(l.padding, ", "), l.groups, l.block);
  return parse_graph(text, op_set(), {{"w", testing::random_tensor(DType::kF32, weight, 1)}});
}

/// F(2x2, 3x3); weights (outputs, inputs, 3, 3).
Graph winograd_network(const Layer& l) {
  const std::string text = fmt::format(
      "fn @main(%x: Tensor[({0}, {1}, {2}, {3}), f32]) -> Tensor[({0}, {4}, {5}, {6}), f32] {{\n"
      "  %t = nn.winograd_weight(@w: Tensor[({6}, {3}, 3, 3), f32], tile=2, block={7})\n"
      "  %u = cast(%t, to=f16)\n"
      "  %y = nn.conv(%x, %u, channels={6}, kernel=[3, 3], strides=[1, 1], dilations=[1, 1], "
      "padding=({8}), channels_last=true, algorithm=winograd2, weight_block={7})\n  return %y\n}}\n",
      l.batch, l.height, l.width, l.inputs, l.out_height(), l.out_width(), l.outputs, l.block,
      fmt::join(l.padding, ", "));
  return parse_graph(text, op_set(),
                     {{"w", testing::random_tensor(DType::kF32, {l.outputs, l.inputs, 3, 3}, 1)}});
}

/// Position of a weight in memory.
using WeightIndex = std::function<int64_t(int64_t o, int64_t ky, int64_t kx, int64_t i)>;

WeightIndex packed_weights(const Layer& l) {
  return [l](int64_t o, int64_t ky, int64_t kx, int64_t i) {
    const int64_t in_group = o % l.group_outputs();
    const int64_t block = o / l.group_outputs() * l.blocks() + in_group / l.block;
    return (((block * l.kernel + ky) * l.kernel + kx) * l.group_inputs() + i) * l.block + in_group % l.block;
  };
}
WeightIndex plain_weights(const Layer& l) {
  return [l](int64_t o, int64_t ky, int64_t kx, int64_t i) {
    return ((o * l.inputs + i) * l.kernel + ky) * l.kernel + kx;
  };
}

Reference expected(const Layer& l, const float* x, const float* w, const WeightIndex& weight_at) {
  Reference y;
  for (int64_t n = 0; n < l.batch; ++n)
    for (int64_t oy = 0; oy < l.out_height(); ++oy)
      for (int64_t ox = 0; ox < l.out_width(); ++ox)
        for (int64_t o = 0; o < l.outputs; ++o) {
          double total = 0, magnitude = 0;
          for (int64_t ky = 0; ky < l.kernel; ++ky)
            for (int64_t kx = 0; kx < l.kernel; ++kx) {
              const int64_t iy = oy * l.stride + ky * l.dilation - l.padding[0];
              const int64_t ix = ox * l.stride + kx * l.dilation - l.padding[1];
              if (iy < 0 || ix < 0 || iy >= l.height || ix >= l.width) continue;
              const int64_t first = o / l.group_outputs() * l.group_inputs();
              for (int64_t i = 0; i < l.group_inputs(); ++i) {
                const double product =
                    double(x[((n * l.height + iy) * l.width + ix) * l.inputs + first + i]) *
                    double(w[weight_at(o, ky, kx, i)]);
                total += product;
                magnitude += std::abs(product);
              }
            }
          y.add(total, magnitude);
        }
  return y;
}

std::string dense_text(const std::string& rows, int64_t depth, int64_t units, int64_t block) {
  return fmt::format(
      "fn @main(%x: Tensor[({0}, {1}), f32]) -> Tensor[({0}, {2}), f32] {{\n"
      "  %u = cast(@w: Tensor[({3}, {1}, {4}), f32], to=f16)\n"
      "  %y = nn.dense(%x, %u, units={2}, weight_block={4})\n  return %y\n}}\n",
      rows, depth, units, ceil_div(units, block), block);
}

Reference expected_product(const float* x, const float* w, int64_t rows, int64_t depth, int64_t units,
                           int64_t block) {
  Reference y;
  for (int64_t m = 0; m < rows; ++m)
    for (int64_t n = 0; n < units; ++n) {
      double total = 0, magnitude = 0;
      for (int64_t k = 0; k < depth; ++k) {
        const double product =
            double(x[m * depth + k]) * double(w[(n / block * depth + k) * block + n % block]);
        total += product;
        magnitude += std::abs(product);
      }
      y.add(total, magnitude);
    }
  return y;
}

/// Runs models on this machine or on the emulated board.
class HalfOnCpu : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (GetParam() == kHere && !runs_here()) GTEST_SKIP() << "this machine has no avx512fp16";
    if (GetParam() == kHere) return;
    if (!testing::emulated_board_program())
      GTEST_SKIP() << "no qemu-aarch64, or no gantry-device built for AArch64";
    if (!board_) board_ = std::make_unique<testing::EmulatedBoard>();
  }
  static void TearDownTestSuite() { board_.reset(); }

  ConstantPtr run(const Graph& graph, const ConstantPtr& x) const {
    const std::vector<std::byte> module =
        testing::compile_to_bytes(graph, {.target = GetParam(), .precision = "fp16"});
    if (GetParam() != kHere) return testing::run_on_board(board_->client(), module, {x}).at(0);
    return testing::LocalModel(module).run({x}).at(0);
  }
  void check(const Layer& layer) const {
    const Graph graph = network(layer);
    const ConstantPtr weight = graph.main.constants().at(0)->constant;
    const ConstantPtr x =
        testing::random_tensor(DType::kF32, {layer.batch, layer.height, layer.width, layer.inputs}, 7);
    expect_near(run(graph, x), expected(layer, x->as<float>(), weight->as<float>(), packed_weights(layer)),
                layer.str());
  }
  void check_winograd(const Layer& layer) const {
    const Graph graph = winograd_network(layer);
    const ConstantPtr weight = graph.main.constants().at(0)->constant;
    const ConstantPtr x =
        testing::random_tensor(DType::kF32, {layer.batch, layer.height, layer.width, layer.inputs}, 7);
    expect_near(run(graph, x), expected(layer, x->as<float>(), weight->as<float>(), plain_weights(layer)),
                "Winograd, " + layer.str());
  }
  void check_product(int64_t rows, int64_t depth, int64_t units, int64_t block,
                     const std::string& rows_text) const {
    const Graph graph =
        parse_graph(dense_text(rows_text, depth, units, block), op_set(),
                    {{"w", testing::random_tensor(DType::kF32, {ceil_div(units, block), depth, block}, 2)}});
    const ConstantPtr weight = graph.main.constants().at(0)->constant;
    const ConstantPtr x = testing::random_tensor(DType::kF32, {rows, depth}, 3);
    expect_near(run(graph, x),
                expected_product(x->as<float>(), weight->as<float>(), rows, depth, units, block),
                fmt::format("{} x {} x {}, blocks of {}", rows, depth, units, block));
  }

  static std::unique_ptr<testing::EmulatedBoard> board_;
};
std::unique_ptr<testing::EmulatedBoard> HalfOnCpu::board_;

TEST_P(HalfOnCpu, ConvolvesAsTheDefinitionSays) {
  check({});
  check({.inputs = 32, .outputs = 96, .block = 32});
}
TEST_P(HalfOnCpu, TakesOneByOneWindows) {
  check({.kernel = 1, .padding = {0, 0, 0, 0}});
  check({.inputs = 256, .outputs = 128, .kernel = 1, .padding = {0, 0, 0, 0}});
  check({.height = 15, .width = 18, .kernel = 1, .stride = 2, .padding = {0, 0, 0, 0}});
}
TEST_P(HalfOnCpu, TakesStridedWindows) {
  check({.height = 15, .width = 18, .stride = 2});
  check({.height = 17, .width = 20, .kernel = 5, .stride = 3, .padding = {2, 2, 2, 2}});
}
TEST_P(HalfOnCpu, TakesDilatedWindowsAndUnevenPadding) {
  check({.dilation = 2, .padding = {2, 2, 2, 2}});
  check({.padding = {0, 2, 1, 0}});
}
TEST_P(HalfOnCpu, TakesChannelsThatAreNoMultipleOfABlockOrAChunk) {
  check({.height = 8, .width = 7, .inputs = 41, .outputs = 37, .block = 32});
  check({.height = 8, .width = 7, .inputs = 67, .outputs = 10, .block = 16});
  check({.height = 5,
         .width = 6,
         .inputs = 529,
         .outputs = 8,
         .kernel = 1,
         .block = 8,
         .padding = {0, 0, 0, 0}});
}
TEST_P(HalfOnCpu, TakesTheFewChannelsOfAFirstLayer) {
  check({.height = 20, .width = 21, .inputs = 3, .kernel = 7, .stride = 2, .padding = {3, 3, 3, 3}});
  check({.height = 12, .width = 11, .inputs = 1, .outputs = 32, .block = 32});
}
TEST_P(HalfOnCpu, TakesGroups) {
  check({.inputs = 64, .outputs = 128, .groups = 4, .block = 32});
  check({.height = 6, .width = 5, .inputs = 20, .outputs = 28, .groups = 2, .block = 14});
}
TEST_P(HalfOnCpu, TakesSeveralImagesAndSmallOnesWithManyChannels) {
  check({.batch = 3, .height = 6, .width = 5});
  check({.height = 7, .width = 7, .inputs = 512, .outputs = 64, .block = 32});
  check({.height = 14,
         .width = 14,
         .inputs = 288,
         .outputs = 32,
         .kernel = 1,
         .block = 32,
         .padding = {0, 0, 0, 0}});
}
TEST_P(HalfOnCpu, TakesWinogradsAlgorithm) {
  check_winograd({.height = 14, .width = 14});
  check_winograd({.batch = 2,
                  .height = 9,
                  .width = 11,
                  .inputs = 41,
                  .outputs = 37,
                  .block = 32,
                  .padding = {0, 2, 1, 0}});
  check_winograd({.height = 14, .width = 14, .inputs = 256, .outputs = 64, .block = 32});
}
TEST_P(HalfOnCpu, MultipliesMatricesOfAnySize) {
  for (auto [rows, depth, units, block] : {std::array<int64_t, 4>{1, 64, 48, 16},
                                           {1, 2048, 40, 32},
                                           {7, 96, 16, 16},
                                           {33, 40, 100, 32},
                                           {130, 64, 64, 64},
                                           {60, 33, 129, 96},
                                           {128, 4160, 48, 32},
                                           {49, 96, 64, 64},
                                           {11, 257, 64, 64}})
    check_product(rows, depth, units, block, std::to_string(rows));
}
TEST_P(HalfOnCpu, MultipliesMatricesOfUnknownHeight) {
  for (int64_t rows : {1, 31, 129}) check_product(rows, 300, 96, 32, "n");
}

ConstantPtr constant_of(const std::vector<int64_t>& shape, float value) {
  std::byte* bytes = nullptr;
  auto tensor = allocate_constant({DType::kF32, Shape(shape.begin(), shape.end())}, &bytes);
  std::fill_n(reinterpret_cast<float*>(bytes), tensor->size / sizeof(float), value);
  return tensor;
}

TEST_P(HalfOnCpu, OverflowsWhereSumsOfAFewProductsDo) {
  auto result = [&](float x, float w) {
    const Graph graph =
        parse_graph(dense_text("1", 1024, 32, 32), op_set(), {{"w", constant_of({1, 1024, 32}, w)}});
    return run(graph, constant_of({1, 1024}, x))->as<float>()[0];
  };
  // 256 products of 240 are summed in f16: 61,440. All of them are summed in f32: 245,760.
  EXPECT_EQ(result(240, 1), 245760);
  EXPECT_EQ(result(260, 1), INFINITY);
  EXPECT_EQ(result(70000, 0.001F), INFINITY);  // beyond 65,504 by itself
  EXPECT_EQ(result(-300, 300), -INFINITY);
}

TEST_P(HalfOnCpu, ComputesWholeModelsFromPlainWeights) {
  const Layer l{.height = 14, .width = 14, .inputs = 64, .outputs = 96, .stride = 2};
  const std::string text = fmt::format(
      "fn @main(%x: Tensor[(1, 64, 14, 14), f32]) -> Tensor[(1, 96, 7, 7), f32] {{\n"
      "  %y = nn.conv(%x, @w: Tensor[(96, 64, 3, 3), f32], channels=96, kernel=[3, 3], strides=[2, 2], "
      "dilations=[1, 1], padding=(1, 1, 1, 1))\n  %z = nn.relu(%y)\n  return %z\n}}\n");
  const Graph graph =
      parse_graph(text, op_set(), {{"w", testing::random_tensor(DType::kF32, {96, 64, 3, 3}, 1)}});
  const ConstantPtr weight = graph.main.constants().at(0)->constant;
  const ConstantPtr x = testing::random_tensor(DType::kF32, {1, 64, 14, 14}, 7);
  const auto *from = x->as<float>(), *w = weight->as<float>();
  Reference y;
  for (int64_t o = 0; o < 96; ++o)
    for (int64_t oy = 0; oy < 7; ++oy)
      for (int64_t ox = 0; ox < 7; ++ox) {
        double total = 0, magnitude = 0;
        for (int64_t i = 0; i < 64; ++i)
          for (int64_t k = 0; k < 9; ++k) {
            const int64_t iy = oy * 2 + k / 3 - 1, ix = ox * 2 + k % 3 - 1;
            if (iy < 0 || ix < 0) continue;
            const double product = double(from[(i * 14 + iy) * 14 + ix]) * double(w[(o * 64 + i) * 9 + k]);
            total += product;
            magnitude += std::abs(product);
          }
        y.add(std::max(total, 0.0), magnitude);
      }
  expect_near(run(graph, x), y, l.str());
}
INSTANTIATE_TEST_SUITE_P(Targets, HalfOnCpu, ::testing::Values(kHere, kBoard),
                         [](const auto& info) { return info.index == 0 ? "Here" : "EmulatedBoard"; });

TEST(HalfLoops, ComputeTheConvolutionWhereverTheyAreEvaluated) {
  const Layer layer{.height = 5, .width = 6, .inputs = 41, .outputs = 40, .stride = 2, .block = 32};
  const Graph graph = network(layer);
  const Node *conv = nullptr, *round = nullptr;
  for (const Node* node : graph.main.nodes()) (node->op->name == "nn.conv" ? conv : round) = node;
  ASSERT_TRUE(conv && round);
  const ConstantPtr weight = round->inputs[0]->constant;
  Tensor plain = placeholder(to_exprs(weight->type.shape), DType::kF32, "w");
  const ConstantPtr packed =
      interpret(op_def(*round).compute(*round, {plain}), {{plain.op().get(), weight}}).at(0);
  std::vector<Tensor> inputs;
  for (const Value* input : conv->inputs)
    inputs.push_back(placeholder(to_exprs(input->type.shape), input->type.dtype, "in"));
  const std::vector<Tensor> outputs = op_def(*conv).compute(*conv, inputs);
  const ConstantPtr x = testing::random_tensor(DType::kF32, {1, layer.height, layer.width, layer.inputs}, 9);
  for (const char* name : {kHere, kBoard}) {
    const Target target = with_precision(find_target(name), Precision::kFp16);
    LoopKernel kernel = run_loop_passes(lower_schedule(make_schedule(outputs, target), inputs, "conv"), {});
    std::byte* bytes = nullptr;
    const ConstantPtr result = allocate_constant(conv->result()->type, &bytes);
    auto span_of = [](const ConstantPtr& c) {
      return std::span<std::byte>(const_cast<std::byte*>(c->bytes), c->size);
    };
    evaluate(kernel, {span_of(x), span_of(packed), {bytes, result->size}}, {});
    expect_near(result, expected(layer, x->as<float>(), weight->as<float>(), packed_weights(layer)), name);
  }
}

TEST(HalfParts, DivideWhatTheyCan) {
  EXPECT_EQ(costs::half_part(27, 32), 27);
  EXPECT_EQ(costs::half_part(64, 32), 32);
  EXPECT_EQ(costs::half_part(48, 32), 24);
  EXPECT_EQ(costs::half_part(50, 32), 25);
  EXPECT_EQ(costs::half_part(67, 32), 32);  // the last part has 3
  EXPECT_EQ(costs::half_part(18, 8), 6);
}

TEST(HalfModel, RoundsWhereThatIsFaster) {
  ConvAttrs attrs;
  attrs.kernel = attrs.strides = attrs.dilations = {1, 1};
  attrs.padding = {0, 0, 0, 0};
  const TensorType data{DType::kF32, {1, 256, 28, 28}};
  auto rounds = [&](const char* target, Precision precision, int64_t channels) {
    attrs.channels = channels;
    return costs::prefers_half(attrs, data, {DType::kF32, {1, channels, 28, 28}},
                               with_precision(find_target(target), precision).machine);
  };
  for (const char* target : {kHere, kBoard}) {
    EXPECT_TRUE(rounds(target, Precision::kFp16, 256)) << target;
    EXPECT_FALSE(rounds(target, Precision::kFp16, 2)) << target;
    EXPECT_FALSE(rounds(target, Precision::kFp32, 256)) << target;
  }
}

}  // namespace
}  // namespace gantry
