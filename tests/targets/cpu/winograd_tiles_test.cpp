// Winograd's algorithm with products on tile registers: its loops evaluated everywhere and its code run on
// AMX, of the CPU or emulated, against a direct convolution in float64; which convolutions it is chosen for.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>

#include "host/codegen/find_target.h"
#include "host/loops/evaluate.h"
#include "host/loops/lower.h"
#include "host/ops/conv.h"
#include "host/ops/op.h"
#include "host/targets/common/schedule_rules.h"
#include "host/tensor/element.h"
#include "host/tensor/interpret.h"
#include "tests/forms/given_forms.h"
#include "tests/support/compiled_model.h"
#include "tests/support/tile_registers.h"
#include "tests/targets/cpu/image_convolution.h"

namespace gantry {
namespace {

constexpr const char* kTarget = "sapphirerapids";

struct Layer {
  int64_t tile = 4, batch = 1, height = 14, width = 14, inputs = 32, outputs = 32;
  std::vector<int64_t> padding{1, 1, 1, 1};  ///< top, left, bottom, right

  ImageConvolution image() const { return {batch, height, width, inputs, outputs, padding}; }
  int64_t out_height() const { return image().out_height(); }
  int64_t out_width() const { return image().out_width(); }
};

Graph network(const Layer& l) {
  const std::string text = fmt::format(
      "fn @main(%x: Tensor[({0}, {1}, {2}, {3}), f32]) -> Tensor[({0}, {4}, {5}, {6}), f32] {{\n"
      "  %u = nn.winograd_weight(@w: Tensor[({6}, {3}, 3, 3), f32], tile={7}, tile_parts=3)\n"
      "  %y = nn.conv(%x, %u, channels={6}, kernel=[3, 3], strides=[1, 1], dilations=[1, 1], "
      "padding=({8}, {9}, {10}, {11}), channels_last=true, algorithm=winograd{7}, tile_parts=3)\n"
      "  %z = nn.relu(%y)\n  return %z\n}}\n",
      l.batch, l.height, l.width, l.inputs, l.out_height(), l.out_width(), l.outputs, l.tile, l.padding[0],
      l.padding[1], l.padding[2], l.padding[3]);
  return parse_graph(text, op_set(),
                     {{"w", testing::random_tensor(DType::kF32, {l.outputs, l.inputs, 3, 3}, 8)}});
}

ConstantPtr data_of(const Layer& l) {
  return testing::random_tensor(DType::kF32, {l.batch, l.height, l.width, l.inputs}, 7);
}

/// Largest difference from the rectified convolution by its largest value.
double relative_error(const Layer& l, const float* x, const float* w, const float* got) {
  double worst = 0, largest = 0;
  for (const double total : l.image().rectified(x, w)) {
    worst = std::max(worst, std::abs(std::max(double(*got++), 0.0) - total));
    largest = std::max(largest, total);
  }
  return worst / largest;
}

double error_of(const Layer& l, int threads = 2) {
  const Graph graph = network(l);
  const ConstantPtr x = data_of(l), weight = graph.main.constants().at(0)->constant;
  const std::vector<std::byte> module =
      testing::compile_to_bytes(graph, {.target = testing::target_with_tile_registers(), .threads = threads});
  const ConstantPtr y = testing::LocalModel(module, threads).run({x}).at(0);
  return relative_error(l, x->as<float>(), weight->as<float>(), y->as<float>());
}

/// As of products in f32: three parts are nearly all of an f32, and the transformations are the same.
double bound(int64_t tile) {
  return tile == 2 ? 2e-6 : tile == 4 ? 4e-6 : 3e-5;
}

class WinogradOnTiles : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    if (testing::target_with_tile_registers().empty())
      GTEST_SKIP() << "neither tile registers (amx-bf16) nor AVX512-BF16, beside which they are emulated";
  }
  void check(Layer layer) const {
    layer.tile = GetParam();
    EXPECT_LT(error_of(layer), bound(layer.tile)) << layer.height << " x " << layer.width;
  }
};
INSTANTIATE_TEST_SUITE_P(Tiles, WinogradOnTiles, ::testing::Values(2, 4, 6),
                         [](const auto& test) { return "F" + std::to_string(test.param); });

TEST_P(WinogradOnTiles, MatchesTheDefinition) {
  check({});
  check({.height = 28, .width = 28, .inputs = 64, .outputs = 96});
}
TEST_P(WinogradOnTiles, TakesImagesThatTilesDoNotDivide) {
  check({.height = 13, .width = 17});
  check({.height = 5, .width = 31, .inputs = 64});
  check({.height = 3, .width = 2});
}
TEST_P(WinogradOnTiles, TakesUnevenPadding) {
  check({.height = 12, .width = 9, .padding = {0, 2, 1, 0}});
}
TEST_P(WinogradOnTiles, TakesSeveralImages) {
  check({.batch = 3, .height = 9, .width = 10});
}
TEST_P(WinogradOnTiles, TakesManyChunksAndBlocks) {
  check({.height = 56, .width = 56, .inputs = 64, .outputs = 64});
  check({.height = 8, .width = 200, .inputs = 32, .outputs = 128});
  check({.height = 28, .width = 28, .inputs = 128, .outputs = 256});
}

/// Of packed weights (blocks…, 3 parts, 2, 16, 32).
std::vector<double> sums_of_parts(const ConstantData& packed) {
  constexpr size_t kPart = 2 * 16 * 32, kParts = 3;
  std::vector<double> sums(packed.size / 2 / kParts);
  for (size_t i = 0; i < sums.size(); ++i) {
    for (size_t part = 0; part < kParts; ++part)
      sums[i] += bfloat_to_float(packed.as<uint16_t>()[(i / kPart * kParts + part) * kPart + i % kPart]);
  }
  return sums;
}

TEST(WinogradTiles, PackWeightsAsTheirExpressionSays) {
  for (int64_t tile : {2, 4, 6}) {
    const Graph graph = parse_graph(
        fmt::format("fn @main() -> Tensor[(2, {}, 2, 3, 2, 16, 32), bf16] {{\n"
                    "  %u = nn.winograd_weight(@w: Tensor[(40, 35, 3, 3), f32], tile={}, tile_parts=3)\n"
                    "  return %u\n}}\n",
                    (tile + 2) * (tile + 2), tile),
        op_set(), {{"w", testing::random_tensor(DType::kF32, {40, 35, 3, 3}, 5)}});
    const Node* node = graph.main.nodes().at(0);
    const ConstantPtr packed = op_def(*node).fold(*node).at(0), weight = node->inputs[0]->constant;
    Tensor w = placeholder(to_exprs(weight->type.shape), DType::kF32, "w");
    const auto interpreted = interpret(op_def(*node).compute(*node, {w}), {{w.op().get(), weight}});
    ASSERT_EQ(packed->type, interpreted.at(0)->type);
    // The expression adds in another order, in float64: parts may differ where their sums hardly do.
    const std::vector<double> got = sums_of_parts(*packed), expected = sums_of_parts(*interpreted.at(0));
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], expected[i], 0x1p-22 * std::abs(expected[i])) << "tile " << tile << ", " << i;
    EXPECT_GT(*std::ranges::max_element(expected), 0);
  }
}

/// The loops of a network's convolution.
LoopKernel conv_loops(const Graph& graph) {
  for (const Node* node : graph.main.nodes()) {
    if (node->op->name != "nn.conv") continue;
    std::vector<Tensor> inputs;
    for (const Value* input : node->inputs)
      inputs.push_back(placeholder(to_exprs(input->type.shape), input->type.dtype, "in"));
    return lower_schedule(make_schedule(op_def(*node).compute(*node, inputs), find_target(kTarget)), inputs,
                          "conv");
  }
  throw std::logic_error("the network has no convolution");
}

/// Instead of what the loops compute, notes which lines of the operand are asked for and which are read.
class RowAccesses : public StmtMutator {
 public:
  RowAccesses(Buffer asked, Buffer read) : asked_(std::move(asked)), read_(std::move(read)) {}

 protected:
  static constexpr int kLine = 32;
  Stmt note(const Buffer& marks, const Expr& index) {
    const Expr line = floordiv(index, Expr(kLine));
    return if_stmt(lt(line, marks->element_count), store(marks, line, float_imm(DType::kF32, 1)));
  }
  Stmt mutate_store(const StoreNode*, const Stmt&) override { return {}; }
  Stmt mutate_prefetch(const PrefetchNode* node, const Stmt&) override {
    return node->buffer->name == "tile_rows" ? note(asked_, node->index) : Stmt();
  }
  Stmt mutate_tile(const TileNode* node, const Stmt& self) override {
    if (node->op == TileNode::Op::kConfigure) rows_ = node->rows;
    if (node->op != TileNode::Op::kLoad || node->buffer->name != "tile_rows") return {};
    std::vector<Stmt> lines;
    for (int row = 0; row < rows_; ++row)
      lines.push_back(note(read_, node->index + Expr(row) * node->stride));
    return block(std::move(lines));
  }

 private:
  Buffer asked_, read_;
  int rows_ = 16;
};

TEST(WinogradTiles, AskForTheRowsOfEachPositionBeforeItsTurn) {
  constexpr size_t kParts = 3, kBlocks = 2, kPositions = 36;
  LoopKernel kernel = conv_loops(network({.height = 28, .width = 28, .inputs = 64, .outputs = 128}));
  const auto rows = std::ranges::find(kernel.scratch, "tile_rows", [](const Buffer& b) { return b->name; });
  ASSERT_NE(rows, kernel.scratch.end());
  const auto lines = static_cast<size_t>((*rows)->element_count.as<IntImmNode>()->value / 32);
  kernel.arguments.clear();
  kernel.input_count = 0;
  std::vector<Stmt> statements;
  for (const char* name : {"asked", "read"}) {
    const Buffer marks = std::make_shared<BufferNode>(
        BufferNode{name, DType::kF32, Expr(static_cast<int64_t>(lines)), BufferScope::kArgument, 4});
    kernel.arguments.push_back(marks);
    const Expr i = make_var("i");
    statements.push_back(
        for_loop(i, 0, marks->element_count, LoopKind::kSerial, store(marks, i, float_imm(DType::kF32, 0))));
  }
  statements.push_back(RowAccesses(kernel.arguments[0], kernel.arguments[1]).mutate_stmt(kernel.body));
  kernel.body = block(std::move(statements));
  std::vector<float> asked(lines), read(lines);
  evaluate(kernel, {std::as_writable_bytes(std::span(asked)), std::as_writable_bytes(std::span(read))});
  const size_t in_position = lines / (kParts * kBlocks * kPositions);
  size_t reads = 0;
  for (size_t line = 0; line < lines; ++line) {
    const size_t position = line / in_position % kPositions;
    reads += read[line] != 0;
    if (read[line] != 0 && position > 0)
      EXPECT_EQ(asked[line], 1) << "line " << line << ", position " << position;
  }
  EXPECT_GE(reads, kParts * kBlocks * kPositions * 49) << "49 tiles of 4 x 4";
}

TEST(WinogradTiles, HaveLoopsThatComputeTheConvolutionWhereverTheyAreEvaluated) {
  const Layer layer{.batch = 2, .height = 7, .width = 9};
  const Graph graph = network(layer);
  const Node* conv = nullptr;
  ConstantPtr packed;
  for (const Node* node : graph.main.nodes()) {
    if (node->op->name == "nn.winograd_weight") packed = op_def(*node).fold(*node).at(0);
    if (node->op->name == "nn.conv") conv = node;
  }
  ASSERT_TRUE(conv && packed);
  const LoopKernel kernel = run_loop_passes(conv_loops(graph), {});
  const ConstantPtr x = data_of(layer);
  std::byte* bytes = nullptr;
  const ConstantPtr result = allocate_constant(conv->result()->type, &bytes);
  auto span_of = [](const ConstantPtr& c) {
    return std::span<std::byte>(const_cast<std::byte*>(c->bytes), c->size);
  };
  evaluate(kernel, {span_of(x), span_of(packed), {bytes, result->size}}, {});
  EXPECT_LT(relative_error(layer, x->as<float>(), graph.main.constants().at(0)->constant->as<float>(),
                           result->as<float>()),
            bound(layer.tile));
}

Decision choice(const char* precision, int64_t channels, int64_t extent, int64_t stride = 1) {
  Target target = find_target(kTarget);
  target.precision = find_precision(precision);
  ConvAttrs attrs;
  attrs.channels = channels;
  attrs.kernel = {3, 3};
  attrs.strides = {stride, stride};
  attrs.dilations = {1, 1};
  attrs.padding = {1, 1, 1, 1};
  const LoneNode conv(nn::conv, attrs, {DType::kF32, {1, channels, extent, extent}},
                      {DType::kF32, {channels, channels, 3, 3}});
  return forms::make_forms(target)->choose(conv.question());
}

TEST(WinogradTiles, AreChosenForLargeImagesAndSplitOperands) {
  const Decision on_tiles{"winograd4", {{"parts", 3}}};
  EXPECT_EQ(choice("fp32-split", 64, 56), on_tiles) << "transformed data need all parts";
  EXPECT_EQ(choice("fp32-split", 256, 56), on_tiles);
  EXPECT_EQ(choice("bf16", 64, 56).form, "tiles") << "errors of bf16 would grow";
  EXPECT_NE(choice("fp32-split", 512, 7), on_tiles) << "mostly weights";
  EXPECT_NE(choice("fp32-split", 64, 56, 2), on_tiles) << "strided";
  EXPECT_NE(choice("fp32-split", 72, 56), on_tiles) << "no whole blocks";
}

}  // namespace
}  // namespace gantry
