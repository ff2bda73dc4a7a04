// Convolutions and matrix products on tiles of bf16: their loops evaluated everywhere, and their code run
// against float64: for AMX on the CPU or emulated, for vdpbf16ps where this CPU has it, for bfmmla on an
// emulated AArch64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <stdexcept>

#include "host/loops/evaluate.h"
#include "host/loops/lower.h"
#include "host/ops/op.h"
#include "host/ops/tiles.h"
#include "host/support/error.h"
#include "host/targets/common/schedule_rules.h"
#include "host/targets/cpu/tile_blocks.h"
#include "host/targets/cpu/tile_depth.h"
#include "host/tensor/interpret.h"
#include "tests/support/compiled_model.h"
#include "tests/support/tile_registers.h"
#include "tests/targets/cpu/image_convolution.h"
#include "tests/targets/nest_facts.h"

namespace gantry {
namespace {

const TileUnit kAmx = tile_unit_named("amx"), kBfmmla = tile_unit_named("bfmmla"),
               kVdpbf16ps = tile_unit_named("vdpbf16ps"), kVpdpbusd = tile_unit_named("vpdpbusd");
constexpr const char *kTarget = "sapphirerapids", *kArmTarget = "aarch64+bf16",
                     *kVectorTarget = "x86-64-v4+avx512bf16";

const char* target_with(TileUnit unit) {
  if (unit == kAmx) return kTarget;
  if (unit == kVpdpbusd) return "x86-64-v4+avx512vnni";
  return unit == kBfmmla ? kArmTarget : kVectorTarget;
}

/// Which instructions, and bf16 parts of the weights.
struct Arithmetic {
  TileUnit unit;
  int64_t parts;
};

void PrintTo(const Arithmetic& a, std::ostream* out) {
  *out << name_of(a.unit) << ", " << a.parts << " parts";
}

bool this_cpu_has(const char* feature) {
  const Target here = find_target("native");
  return std::find(here.features.begin(), here.features.end(), feature) != here.features.end();
}

bool has_tile_registers() {
  return !testing::target_with_tile_registers().empty();
}

ConstantPtr run_graph(const Graph& graph, const ConstantPtr& x, TileUnit unit, int threads = 2) {
  const std::string target = unit == kAmx ? testing::target_with_tile_registers() : target_with(unit);
  const std::vector<std::byte> module =
      testing::compile_to_bytes(graph, {.target = target, .threads = threads});
  if (unit != kBfmmla) return testing::LocalModel(module, threads).run({x}).at(0);
  static testing::EmulatedBoard board;
  return testing::run_on_board(board.client(), module, {x}, threads).at(0);
}

struct Layer {
  int64_t batch = 1, height = 14, width = 14, inputs = 64, outputs = 64, kernel = 3, stride = 1, dilation = 1;
  std::vector<int64_t> padding{1, 1, 1, 1};  ///< top, left, bottom, right; of sequences left, right

  bool sequences() const { return padding.size() == 2; }
  /// Of an odd window over a sequence only the middle line meets the one line of an image.
  ImageConvolution image() const {
    if (!sequences()) return {batch, height, width, inputs, outputs, padding, kernel, stride, dilation};
    const int64_t lines = dilation * (kernel / 2);
    return {batch,  1,      width,   inputs, outputs, {lines, padding[0], lines, padding[1]},
            kernel, stride, dilation};
  }
  /// (H, W) and alike as the layer has them.
  std::vector<int64_t> spatial(int64_t vertical, int64_t horizontal) const {
    return sequences() ? std::vector{horizontal} : std::vector{vertical, horizontal};
  }
  std::vector<int64_t> both(int64_t extent) const { return spatial(extent, extent); }
  std::vector<int64_t> data() const {
    std::vector<int64_t> shape = spatial(height, width);
    shape.insert(shape.begin(), batch);
    shape.push_back(inputs);
    return shape;
  }
  std::vector<int64_t> weight() const {
    std::vector<int64_t> shape = both(kernel);
    shape.insert(shape.begin(), {outputs, inputs});
    return shape;
  }
  std::vector<double> rectified(const float* x, const ConstantPtr& w) const {
    return image().rectified(x, sequences() ? square_windows(*w).data() : w->as<float>());
  }

 private:
  /// Windows of a sequence as the middle lines of an image's.
  std::vector<float> square_windows(const ConstantData& w) const {
    std::vector<float> square(static_cast<size_t>(outputs * inputs * kernel * kernel), 1);
    for (int64_t c = 0; c < outputs * inputs; ++c)
      std::copy_n(w.as<float>() + c * kernel, kernel, square.data() + (c * kernel + kernel / 2) * kernel);
    return square;
  }
};

/// `images`: a symbol in place of the layer's batch; `squared`: of the data's positive elements.
Graph network(const Layer& l, const Arithmetic& by, const std::string& images = "", bool squared = false) {
  ConvAttrs attrs;
  attrs.tile_unit = by.unit;
  attrs.kernel = l.both(l.kernel);
  attrs.dilations = l.both(l.dilation);
  const bool fold = folds_width(attrs, l.inputs);
  const std::vector<int64_t> result = l.spatial(l.image().out_height(), l.image().out_width());
  using fmt::join;
  const std::string text = fmt::format(
      "fn @main(%x: Tensor[({batch}, {data}, {inputs}), f32]) -> Tensor[({batch}, {result}, {outputs}), f32] "
      "{{\n"
      "  %u = nn.tile_weight(@w: Tensor[({weight}), f32], parts={parts}, column_tiles={columns}, "
      "fold_width={fold}, tile_unit={unit})\n"
      "{first}  %y = nn.conv({operand}, %u, channels={outputs}, kernel=[{kernel}], strides=[{strides}], "
      "dilations=[{dilations}], padding=({padding}), channels_last=true, algorithm=tiles, "
      "tile_parts={parts}, tile_fold_width={fold}, tile_unit={unit})\n"
      "  %z = nn.relu(%y)\n  return %z\n}}\n",
      fmt::arg("batch", images.empty() ? std::to_string(l.batch) : images),
      fmt::arg("data", join(l.spatial(l.height, l.width), ", ")), fmt::arg("inputs", l.inputs),
      fmt::arg("result", join(result, ", ")), fmt::arg("outputs", l.outputs),
      fmt::arg("weight", join(l.weight(), ", ")), fmt::arg("parts", by.parts),
      fmt::arg("columns", tile_columns(by.unit, l.outputs)), fmt::arg("fold", fold),
      fmt::arg("unit", name_of(by.unit)), fmt::arg("kernel", join(attrs.kernel, ", ")),
      fmt::arg("strides", join(l.both(l.stride), ", ")), fmt::arg("dilations", join(attrs.dilations, ", ")),
      fmt::arg("padding", join(l.padding, ", ")),
      fmt::arg("first", squared ? "  %p = nn.relu(%x)\n  %s = multiply(%p, %p)\n" : ""),
      fmt::arg("operand", squared ? "%s" : "%x"));
  return parse_graph(text, op_set(), {{"w", testing::random_tensor(DType::kF32, l.weight(), 1)}});
}

/// Largest difference by largest result.
double relative_error(const ConstantPtr& got, const std::vector<double>& reference) {
  EXPECT_EQ(got->size, reference.size() * sizeof(float));
  double worst = 0, largest = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    worst = std::max(worst, std::abs(double(got->as<float>()[i]) - reference[i]));
    largest = std::max(largest, std::abs(reference[i]));
  }
  return worst / largest;
}

double conv_error(const Layer& l, const Arithmetic& by) {
  Graph graph = network(l, by);
  const ConstantPtr weight = graph.main.constants().at(0)->constant;
  const ConstantPtr x = testing::random_tensor(DType::kF32, l.data(), 7);
  return relative_error(run_graph(graph, x, by.unit), l.rectified(x->as<float>(), weight));
}

/// What host/ops/tiles.h states for one product, with room for the sum in f32, which bfmmla rounds to odd and
/// vdpbf16ps after every product.
double bound(const Arithmetic& by) {
  const double sums = by.unit == kAmx ? 1e-6 : 6e-6;
  return by.parts == 1 ? 0x1p-8 : by.parts == 2 ? 0x1p-17 : sums;
}

class TilesOnCpu : public ::testing::TestWithParam<Arithmetic> {
 protected:
  void SetUp() override {
    const TileUnit unit = GetParam().unit;
    if (unit == kAmx && !has_tile_registers())
      GTEST_SKIP() << "neither tile registers (amx-bf16) nor AVX512-BF16, beside which they are emulated";
    if (unit == kVdpbf16ps && !this_cpu_has("avx512bf16"))
      GTEST_SKIP() << "this machine has no vector products of bf16 (avx512bf16)";
    if (unit == kBfmmla && !testing::emulated_board_program())
      GTEST_SKIP() << "no qemu-aarch64, or no gantry-device built for AArch64";
  }
  void check(const Layer& layer) const { EXPECT_LT(conv_error(layer, GetParam()), bound(GetParam())); }
};

TEST_P(TilesOnCpu, MatchTheDefinition) {
  check({});
}
TEST_P(TilesOnCpu, TakeOneByOneWindows) {
  check({.height = 13, .width = 11, .kernel = 1, .padding = {0, 0, 0, 0}});
}
TEST_P(TilesOnCpu, TakeStridedWindows) {
  check({.height = 15, .width = 18, .stride = 2});
  check({.height = 15, .width = 18, .kernel = 1, .stride = 2, .padding = {0, 0, 0, 0}});
  check({.height = 17, .width = 20, .kernel = 5, .stride = 3, .padding = {2, 2, 2, 2}});
}
TEST_P(TilesOnCpu, TakeDilatedWindows) {
  check({.dilation = 2, .padding = {2, 2, 2, 2}});
}
TEST_P(TilesOnCpu, TakeUnevenPadding) {
  check({.height = 9, .width = 12, .padding = {0, 2, 1, 0}});
  check({.batch = 2, .height = 9, .width = 12, .padding = {1, 0, 1, 0}});
  check({.batch = 2, .height = 9, .width = 12, .dilation = 2, .padding = {0, 2, 0, 2}});
}
TEST_P(TilesOnCpu, TakeChannelsThatAreNoMultipleOfATile) {
  check({.height = 8, .width = 7, .inputs = 41, .outputs = 37});
  check({.height = 8, .width = 7, .inputs = 33, .outputs = 10});
}
TEST_P(TilesOnCpu, TakeTheFewChannelsOfAFirstLayer) {
  check({.height = 32,
         .width = 30,
         .inputs = 3,
         .outputs = 64,
         .kernel = 7,
         .stride = 2,
         .padding = {3, 3, 3, 3}});
  check({.height = 20, .width = 21, .inputs = 3, .outputs = 24, .stride = 2, .padding = {0, 1, 1, 0}});
}
TEST_P(TilesOnCpu, TakeSeveralImages) {
  check({.batch = 3, .height = 6, .width = 5});
  check({.batch = 2, .height = 7, .width = 7, .kernel = 1, .padding = {0, 0, 0, 0}});
}
TEST_P(TilesOnCpu, TakeSequences) {
  check({.width = 100, .padding = {1, 1}});
  check({.width = 90, .kernel = 1, .padding = {0, 0}});
  check({.width = 121, .kernel = 5, .stride = 3, .padding = {4, 0}});
  check({.width = 70, .dilation = 8, .padding = {16, 0}});
  check({.batch = 3, .width = 41, .inputs = 33, .outputs = 10, .padding = {2, 1}});
  check({.batch = 2, .width = 64, .inputs = 3, .outputs = 40, .kernel = 11, .stride = 2, .padding = {5, 5}});
  check({.width = 400, .inputs = 96, .outputs = 128, .padding = {1, 1}});
}
TEST_P(TilesOnCpu, TakeAnUnknownNumberOfImages) {
  for (const Layer& layer :
       {Layer{.batch = 3, .height = 9, .width = 7, .inputs = 20, .outputs = 24},
        Layer{.batch = 3, .width = 50, .inputs = 20, .outputs = 24, .padding = {1, 1}}}) {
    Graph graph = network(layer, GetParam(), "n");
    const ConstantPtr weight = graph.main.constants().at(0)->constant;
    const ConstantPtr x = testing::random_tensor(DType::kF32, layer.data(), 7);
    EXPECT_LT(relative_error(run_graph(graph, x, GetParam().unit), layer.rectified(x->as<float>(), weight)),
              bound(GetParam()));
  }
}
TEST_P(TilesOnCpu, TakeImagesOfManyBlocks) {
  check({.height = 56, .width = 56, .inputs = 32, .outputs = 32});
  check({.height = 3, .width = 600, .inputs = 32, .outputs = 32});
  check({.height = 40, .width = 41, .inputs = 32, .outputs = 160, .kernel = 1, .padding = {0, 0, 0, 0}});
}
TEST_P(TilesOnCpu, TakeWeightsLargerThanTheCache) {
  check({.height = 7, .width = 7, .inputs = 256, .outputs = 256});
}
INSTANTIATE_TEST_SUITE_P(Parts, TilesOnCpu,
                         ::testing::Values(Arithmetic{kAmx, 1}, Arithmetic{kAmx, 2},
                                           Arithmetic{kAmx, 3}, Arithmetic{kBfmmla, 1},
                                           Arithmetic{kBfmmla, 2}, Arithmetic{kBfmmla, 3},
                                           Arithmetic{kVdpbf16ps, 1}, Arithmetic{kVdpbf16ps, 2},
                                           Arithmetic{kVdpbf16ps, 3}),
                         [](const auto& test) {
                           return std::string(name_of(test.param.unit)) + std::to_string(test.param.parts);
                         });

Graph dense_network(const std::string& rows, int64_t depth, int64_t units, const Arithmetic& by) {
  return parse_graph(
      fmt::format(
          "fn @main(%x: Tensor[({0}, {1}), f32]) -> Tensor[({0}, {2}), f32] {{\n"
          "  %u = nn.tile_weight(@w: Tensor[({1}, {2}), f32], parts={3}, column_tiles={4}, dense=true, "
          "tile_unit={5})\n"
          "  %y = nn.dense(%x, %u, units={2}, tile_parts={3}, tile_unit={5})\n  return %y\n}}\n",
          rows, depth, units, by.parts, tile_columns(by.unit, units), name_of(by.unit)),
      op_set(), {{"w", testing::random_tensor(DType::kF32, {depth, units}, 2)}});
}

std::vector<double> expected_product(const float* x, const float* w, int64_t rows, int64_t depth,
                                     int64_t units) {
  std::vector<double> y(static_cast<size_t>(rows * units), 0);
  for (int64_t m = 0; m < rows; ++m)
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t n = 0; n < units; ++n)
        y[static_cast<size_t>(m * units + n)] += double(x[m * depth + k]) * double(w[k * units + n]);
  return y;
}

TEST_P(TilesOnCpu, ConvolveWhatArithmeticMakesOfTheData) {
  // Blocks of rows that make what they read; all rows made once a thread; several images.
  for (const Layer& layer :
       {Layer{.height = 14, .inputs = 96, .outputs = 48, .kernel = 1, .padding = {0, 0, 0, 0}},
        Layer{.height = 9, .inputs = 264, .outputs = 1056, .kernel = 1, .padding = {0, 0, 0, 0}},
        Layer{.batch = 3, .height = 5, .kernel = 1, .padding = {0, 0, 0, 0}}}) {
    const Graph graph = network(layer, GetParam(), "", true);
    const ConstantPtr weight = graph.main.constants().at(0)->constant;
    const ConstantPtr x = testing::random_tensor(DType::kF32, layer.data(), 7);
    std::vector<float> squares(x->as<float>(), x->as<float>() + x->size / sizeof(float));
    for (float& value : squares) value = value > 0 ? value * value : 0;
    EXPECT_LT(relative_error(run_graph(graph, x, GetParam().unit), layer.rectified(squares.data(), weight)),
              bound(GetParam()))
        << layer.inputs << " to " << layer.outputs;
  }
}

TEST_P(TilesOnCpu, MultiplyMatricesOfAnySize) {
  for (auto [rows, depth, units] : {std::array<int64_t, 3>{1, 64, 48},
                                    {7, 96, 16},
                                    {33, 40, 100},
                                    {130, 64, 64},
                                    {300, 33, 129},
                                    {128, 2080, 48},
                                    {49, 96, 64},
                                    {196, 64, 96},
                                    {11, 64, 64}}) {
    Graph graph = dense_network(std::to_string(rows), depth, units, GetParam());
    const ConstantPtr weight = graph.main.constants().at(0)->constant;
    const ConstantPtr x = testing::random_tensor(DType::kF32, {rows, depth}, 3);
    EXPECT_LT(relative_error(run_graph(graph, x, GetParam().unit),
                             expected_product(x->as<float>(), weight->as<float>(), rows, depth, units)),
              bound(GetParam()))
        << rows << " x " << depth << " x " << units;
  }
}

TEST_P(TilesOnCpu, MultiplyMatricesOfUnknownHeight) {
  Graph graph = dense_network("n", 64, 96, GetParam());
  const ConstantPtr weight = graph.main.constants().at(0)->constant;
  for (int64_t rows : {1, 31, 127, 128, 129, 400}) {
    const ConstantPtr x = testing::random_tensor(DType::kF32, {rows, 64}, 5);
    EXPECT_LT(relative_error(run_graph(graph, x, GetParam().unit),
                             expected_product(x->as<float>(), weight->as<float>(), rows, 64, 96)),
              bound(GetParam()))
        << rows << " rows";
  }
}

class EveryTileUnit : public ::testing::TestWithParam<TileUnit> {};
INSTANTIATE_TEST_SUITE_P(Units, EveryTileUnit, ::testing::Values(kAmx, kBfmmla, kVdpbf16ps),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST_P(EveryTileUnit, PacksWeightsAsTheirExpressionSays) {
  for (const Layer& layer : {Layer{.inputs = 5, .outputs = 37}, Layer{.inputs = 40, .outputs = 37},
                             Layer{.inputs = 5, .outputs = 37, .padding = {1, 1}},
                             Layer{.inputs = 40, .outputs = 37, .padding = {1, 1}}}) {
    Graph graph = network(layer, {GetParam(), 3});
    const auto nodes = graph.main.nodes();
    const auto found = std::find_if(nodes.begin(), nodes.end(),
                                    [](const Node* node) { return node->op->name == "nn.tile_weight"; });
    ASSERT_NE(found, nodes.end());
    const Node* node = *found;
    const ConstantPtr packed = op_def(*node).fold(*node).at(0);
    Tensor w = placeholder(to_exprs(node->inputs[0]->type.shape), DType::kF32, "w");
    const auto interpreted =
        interpret(op_def(*node).compute(*node, {w}), {{w.op().get(), node->inputs[0]->constant}});
    ASSERT_EQ(packed->type, interpreted.at(0)->type);
    EXPECT_EQ(0, std::memcmp(packed->bytes, interpreted.at(0)->bytes, packed->size));
  }
}

TEST_P(EveryTileUnit, HasLoopsThatComputeTheProductWhereverTheyAreEvaluated) {
  const Layer layer{.height = 5, .width = 6, .inputs = 33, .outputs = 20, .stride = 2};
  const int64_t parts = 2;
  Graph graph = network(layer, {GetParam(), parts});
  const Node* conv = nullptr;
  ConstantPtr packed;
  for (const Node* node : graph.main.nodes()) {
    if (node->op->name == "nn.tile_weight") packed = op_def(*node).fold(*node).at(0);
    if (node->op->name == "nn.conv") conv = node;
  }
  ASSERT_TRUE(conv && packed);
  std::vector<Tensor> inputs;
  for (const Value* input : conv->inputs)
    inputs.push_back(placeholder(to_exprs(input->type.shape), input->type.dtype, "in"));
  const std::vector<Tensor> outputs = op_def(*conv).compute(*conv, inputs);
  LoopKernel kernel = run_loop_passes(
      lower_schedule(make_schedule(outputs, find_target(target_with(GetParam()))), inputs, "conv"), {});
  const ConstantPtr x = testing::random_tensor(DType::kF32, layer.data(), 9);
  std::byte* bytes = nullptr;
  const ConstantPtr result = allocate_constant(conv->result()->type, &bytes);
  auto span_of = [](const ConstantPtr& c) {
    return std::span<std::byte>(const_cast<std::byte*>(c->bytes), c->size);
  };
  evaluate(kernel, {span_of(x), span_of(packed), {bytes, result->size}}, {});
  std::vector<double> reference = layer.rectified(x->as<float>(), graph.main.constants().at(0)->constant);
  auto* values = reinterpret_cast<float*>(bytes);
  for (size_t i = 0; i < reference.size(); ++i) values[i] = std::max(values[i], 0.0F);
  EXPECT_LT(relative_error(result, reference), bound({GetParam(), parts}));
}

TEST(TileBlocks, CoverTheRowsWithTilesThatFitThem) {
  for (int64_t extent = 1; extent < 900; ++extent) {
    for (const cpu::RowBlocks& blocks : cpu::row_blocks(extent, kAmx)) {
      EXPECT_GE(blocks.size * blocks.count, extent);
      EXPECT_LT(blocks.size * (blocks.count - 1), extent);
      const int64_t tiles = blocks.rows / blocks.tile_rows;
      EXPECT_EQ(blocks.rows % blocks.tile_rows, 0);
      EXPECT_TRUE(tiles == 1 || tiles % 2 == 0) << extent;
      EXPECT_LE(blocks.tile_rows, 16);
      EXPECT_GE(blocks.rows, blocks.size);
      EXPECT_LT(blocks.rows - blocks.size, tiles) << "rows in vain, less than one a tile";
    }
    for (TileUnit unit : {kBfmmla, kVdpbf16ps}) {
      const TileGeometry& tile = geometry_of(unit);
      for (const cpu::RowBlocks& blocks : cpu::row_blocks(extent, unit)) {
        EXPECT_GE(blocks.rows, blocks.size);
        EXPECT_EQ(blocks.rows % blocks.unit_rows, 0);
        EXPECT_EQ(blocks.unit_rows % tile.rows, 0);
        EXPECT_LE(blocks.unit_rows, tile.row_tiles * tile.rows);
        EXPECT_LT(blocks.rows - blocks.size, blocks.unit_rows) << "rows in vain, less than one tile";
      }
    }
  }
  // Seven lines of seven results, one column of zeros between two lines: 55 rows.
  const auto lines = cpu::line_blocks(1, 7, 7, 8, kAmx);
  EXPECT_EQ(lines.back().size, 7);
  EXPECT_EQ(lines.back().rows, 56);
  EXPECT_EQ(lines.back().tile_rows, 14);
}

class HintCounter : public StmtMutator {
 public:
  int near = 0, far = 0, results = 0;

 protected:
  Stmt mutate_prefetch(const PrefetchNode* node, const Stmt& self) override {
    ++(node->fetch == Fetch::kFirstLevel ? near : node->fetch == Fetch::kSecondLevel ? far : results);
    return self;
  }
};

/// The graph's node of that operator, alone; `residual`: another tensor is added to its result.
LoopKernel kernel_of(const Graph& graph, std::string_view op, bool residual = false) {
  for (const Node* node : graph.main.nodes()) {
    if (node->op->name != op) continue;
    std::vector<Tensor> inputs;
    for (const Value* input : node->inputs)
      inputs.push_back(placeholder(to_exprs(input->type.shape), input->type.dtype, "in"));
    std::vector<Tensor> results = op_def(*node).compute(*node, inputs);
    if (residual) {
      const Tensor product = results[0];
      const Tensor added = placeholder(product.shape(), DType::kF32, "residual");
      inputs.push_back(added);
      results = {compute(
          product.shape(), [&](const std::vector<Expr>& at) { return product(at) + added(at); }, "sum")};
    }
    return lower_schedule(make_schedule(results, find_target(kTarget)), inputs, "kernel");
  }
  throw std::logic_error(fmt::format("the network has no {}", op));
}

LoopKernel product_kernel(int64_t rows, int64_t depth, int64_t units, int64_t parts = 2) {
  return kernel_of(dense_network(std::to_string(rows), depth, units, {kAmx, parts}), "nn.dense");
}

HintCounter hints_of_product(int64_t rows) {
  HintCounter counter;
  counter.mutate_stmt(product_kernel(rows, 1024, 512).body);
  return counter;
}

/// Of the depth: what each adds up lies in memory until all are there.
int64_t parts_of_product(int64_t rows, int64_t depth, int64_t units, int64_t weight_parts = 2) {
  for (const Buffer& buffer : product_kernel(rows, depth, units, weight_parts).scratch)
    if (buffer->name == "tile_partial") return cpu::kDepthParts;
  return 1;
}

TEST(TileHints, AskForAShareOfTheNextWeightsInEachStep) {
  // A step reads two tiles of columns in two parts, 4 KiB: 64 lines. Four pairs of tiles of rows read them in
  // turn, and each asks for a quarter of those that follow.
  const HintCounter shared = hints_of_product(128);
  EXPECT_EQ(shared.far, 16);
  EXPECT_EQ(shared.near, 0);
  // Read once, they come to the first-level cache one step ahead.
  const HintCounter once = hints_of_product(32);
  EXPECT_EQ(once.near, 64);
  EXPECT_EQ(once.far, 0);
}

/// Leaves of a kernel its loops and the hints for one argument, which store a line where they point.
class HintsAsStores : public StmtMutator {
 public:
  HintsAsStores(const LoopKernel& kernel, size_t argument, Fetch fetch)
      : hinted_(kernel.arguments[argument]), result_(kernel.arguments.back()), fetch_(fetch) {}

 protected:
  Stmt mutate_store(const StoreNode*, const Stmt&) override { return {}; }
  Stmt mutate_tile(const TileNode*, const Stmt&) override { return {}; }
  Stmt mutate_transpose(const TransposeNode*, const Stmt&) override { return {}; }
  Stmt mutate_prefetch(const PrefetchNode* node, const Stmt&) override {
    constexpr int kLine = 16;
    if (node->buffer != hinted_ || node->fetch != fetch_) return {};
    // The last step may ask for lines behind the last.
    const Expr line(std::make_shared<RampNode>(node->index, Expr(1), kLine));
    const Expr ones(std::make_shared<BroadcastNode>(float_imm(DType::kF32, 1), kLine));
    return if_stmt(lt(node->index, result_->element_count), store(result_, line, ones));
  }

 private:
  Buffer hinted_, result_;
  Fetch fetch_;
};

/// The evaluation of the loops around the hints fails where an element of the result is never stored.
void expect_hints_for_all(LoopKernel kernel, size_t argument, Fetch fetch) {
  kernel.body = HintsAsStores(kernel, argument, fetch).mutate_stmt(kernel.body);
  std::vector<std::vector<std::byte>> storage;
  for (const Buffer& buffer : kernel.arguments)
    storage.emplace_back(size_t(buffer->element_count.as<IntImmNode>()->value) *
                         size_t(byte_width(buffer->dtype)));
  EXPECT_NO_THROW(evaluate(kernel, {storage.begin(), storage.end()}));
}

TEST(TileHints, AskForEveryLineOfLargeResults) {
  // Rows that adjoin, in blocks of which the last begins among those of the one before.
  const LoopKernel dense = product_kernel(500, 64, 512);
  expect_hints_for_all(dense, dense.arguments.size() - 1, Fetch::kWrite);
  // Lines of an image, and what is added to them.
  const Graph image = network({.height = 28, .width = 28, .outputs = 96}, {kAmx, 2});
  const LoopKernel conv = kernel_of(image, "nn.conv", true);
  expect_hints_for_all(conv, conv.arguments.size() - 1, Fetch::kWrite);
  expect_hints_for_all(conv, conv.arguments.size() - 2, Fetch::kSecondLevel);
}

TEST(TileHints, LeaveResultsAloneWhereWeightsAreMore) {
  HintCounter counter;
  counter.mutate_stmt(product_kernel(128, 1024, 512).body);
  EXPECT_EQ(counter.results, 0);
  counter.mutate_stmt(product_kernel(512, 64, 512).body);
  EXPECT_GT(counter.results, 0);
}

TEST(TileRows, AreMadeByEachThreadWhereItsColumnsNeedAllOfFewEnough) {
  auto once = [](int64_t rows, int64_t depth, int64_t units) {
    return test::has(product_kernel(rows, depth, units), StmtKind::kOnce);
  };
  EXPECT_TRUE(once(196, 256, 1024)) << "a megabyte of weights, 200 KiB of rows";
  EXPECT_FALSE(once(196, 1024, 256)) << "threads divide rows";
  EXPECT_FALSE(once(1000, 512, 2048)) << "two megabytes of rows";
}

TEST(TileRows, ThatEachThreadMakesGiveTheProduct) {
  if (!has_tile_registers())
    GTEST_SKIP() << "neither tile registers (amx-bf16) nor AVX512-BF16, beside which they are emulated";
  constexpr int64_t kRows = 100, kDepth = 256, kUnits = 1056;
  const Arithmetic by{kAmx, 2};
  Graph graph = dense_network(std::to_string(kRows), kDepth, kUnits, by);
  const ConstantPtr weight = graph.main.constants().at(0)->constant;
  const ConstantPtr x = testing::random_tensor(DType::kF32, {kRows, kDepth}, 3);
  ASSERT_TRUE(test::has(product_kernel(kRows, kDepth, kUnits), StmtKind::kOnce));
  const auto reference = expected_product(x->as<float>(), weight->as<float>(), kRows, kDepth, kUnits);
  for (int threads : {1, 2, 3, 8})
    EXPECT_LT(relative_error(run_graph(graph, x, by.unit, threads), reference), bound(by))
        << threads << " threads";
}

TEST(TileDepth, IsDividedWhereTheOperandIsLargeAndTheResultSmall) {
  EXPECT_EQ(parts_of_product(128, 3072, 768), 2);
  EXPECT_EQ(parts_of_product(1000, 2048, 256), 2) << "several blocks of rows";
  EXPECT_EQ(parts_of_product(128, 768, 3072), 1) << "more columns than depth";
  EXPECT_EQ(parts_of_product(128, 3104, 768), 1) << "97 blocks of the depth have no half";
  EXPECT_EQ(parts_of_product(16, 3072, 768), 1) << "an operand that stays in the cache";
  EXPECT_EQ(parts_of_product(128, 2048, 64), 1) << "weights that stay in the cache";
}

TEST(TileDepth, PartsAddUpToTheProduct) {
  if (!has_tile_registers())
    GTEST_SKIP() << "neither tile registers (amx-bf16) nor AVX512-BF16, beside which they are emulated";
  constexpr int64_t kDepth = 2048, kUnits = 288;
  for (auto [rows, parts] : {std::array<int64_t, 2>{70, 2}, {70, 3}, {500, 1}, {500, 2}}) {
    const Arithmetic by{kAmx, parts};
    Graph graph = dense_network(std::to_string(rows), kDepth, kUnits, by);
    const ConstantPtr weight = graph.main.constants().at(0)->constant;
    const ConstantPtr x = testing::random_tensor(DType::kF32, {rows, kDepth}, 3);
    ASSERT_EQ(parts_of_product(rows, kDepth, kUnits, parts), 2);
    const auto reference = expected_product(x->as<float>(), weight->as<float>(), rows, kDepth, kUnits);
    for (int threads : {1, 2, 3})
      EXPECT_LT(relative_error(run_graph(graph, x, by.unit, threads), reference), bound(by))
          << rows << " rows, " << parts << " parts, " << threads << " threads";
  }
}

// --- u8 by i8, whose sums are exact

/// All values that their type has.
template <typename T>
ConstantPtr some_integers(DType dtype, const std::vector<int64_t>& shape, uint32_t seed, T low, T high) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> any(low, high);
  Shape dims(shape.begin(), shape.end());
  std::vector<T> values(static_cast<size_t>(element_count(dims).value()));
  for (T& value : values) value = static_cast<T>(any(random));
  return make_constant({dtype, dims}, values.data());
}
ConstantPtr some_bytes(int64_t rows, int64_t depth) {
  return some_integers<uint8_t>(DType::kU8, {rows, depth}, 3, 0, 255);
}

template <typename Weight>
std::vector<int32_t> sums_of_bytes(const ConstantPtr& x, const ConstantPtr& w, int32_t zero_point) {
  const auto rows = x->type.shape[0].value(), depth = x->type.shape[1].value(),
             units = w->type.shape[1].value();
  std::vector<int32_t> sums(static_cast<size_t>(rows * units), 0);
  for (int64_t m = 0; m < rows; ++m)
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t n = 0; n < units; ++n)
        sums[static_cast<size_t>(m * units + n)] +=
            (x->as<uint8_t>()[m * depth + k] - zero_point) * int32_t(w->as<Weight>()[k * units + n]);
  return sums;
}

constexpr int32_t kZeroPoint = 117;

/// As quantised models have it: (x - zero point) in i32 times a constant.
Graph quantised_product(int64_t rows, const ConstantPtr& weight) {
  const int64_t depth = weight->type.shape[0].value(), units = weight->type.shape[1].value();
  return parse_graph(fmt::format("fn @main(%x: Tensor[({0}, {1}), u8]) -> Tensor[({0}, {2}), i32] {{\n"
                                 "  %0 = cast(%x, to=i32)\n  %1 = subtract(%0, const(i32, [], [{3}]))\n"
                                 "  %2 = matmul(%1, @w: Tensor[({1}, {2}), i32])\n  return %2\n}}\n",
                                 rows, depth, units, kZeroPoint),
                     op_set(), {{"w", weight}});
}

ConstantPtr byte_sized_weight(int64_t depth, int64_t units) {
  return some_integers<int32_t>(DType::kI32, {depth, units}, 2, -128, 127);
}

TEST(TilesOfBytes, GiveTheSumsOfIntegersForMatricesOfAnySize) {
  if (!this_cpu_has("avx512vnni"))
    GTEST_SKIP() << "this machine has no vector products of bytes (avx512vnni)";
  for (auto [rows, depth, units] : {std::array<int64_t, 3>{1, 64, 48},
                                    {7, 96, 16},
                                    {33, 40, 100},
                                    {130, 64, 64},
                                    {300, 33, 129},
                                    {49, 147, 64},
                                    {128, 2080, 48}}) {
    const ConstantPtr weight = byte_sized_weight(depth, units), x = some_bytes(rows, depth);
    const ConstantPtr y = run_graph(quantised_product(rows, weight), x, kVpdpbusd);
    ASSERT_EQ(y->type, (TensorType{DType::kI32, {rows, units}}));
    const auto expected = sums_of_bytes<int32_t>(x, weight, kZeroPoint);
    EXPECT_EQ(std::vector<int32_t>(y->as<int32_t>(), y->as<int32_t>() + expected.size()), expected)
        << rows << " x " << depth << " x " << units;
  }
}

TEST(TilesOfBytes, HaveLoopsThatComputeTheProductWhereverTheyAreEvaluated) {
  constexpr int64_t kRows = 31, kDepth = 70, kUnits = 40;
  const ConstantPtr weight = some_integers<int8_t>(DType::kI8, {kDepth, kUnits}, 2, -128, 127);
  const Graph graph = parse_graph(
      fmt::format("fn @main(%x: Tensor[({0}, {1}), u8]) -> Tensor[({0}, {2}), i32] {{\n"
                  "  %u = nn.tile_weight(@w: Tensor[({1}, {2}), i8], parts=1, column_tiles={3}, dense=true, "
                  "tile_unit=vpdpbusd)\n"
                  "  %y = nn.dense(%x, %u, units={2}, tile_parts=1, tile_unit=vpdpbusd)\n  return %y\n}}\n",
                  kRows, kDepth, kUnits, tile_columns(kVpdpbusd, kUnits)),
      op_set(), {{"w", weight}});
  const Node *packing = graph.main.nodes().at(0), *dense = graph.main.nodes().at(1);
  const ConstantPtr packed = op_def(*packing).fold(*packing).at(0);
  const Tensor w = placeholder(to_exprs(weight->type.shape), DType::kI8, "w");
  const auto interpreted = interpret(op_def(*packing).compute(*packing, {w}), {{w.op().get(), weight}});
  ASSERT_EQ(packed->type, interpreted.at(0)->type);
  EXPECT_EQ(0, std::memcmp(packed->bytes, interpreted.at(0)->bytes, packed->size));

  std::vector<Tensor> inputs;
  for (const Value* input : dense->inputs)
    inputs.push_back(placeholder(to_exprs(input->type.shape), input->type.dtype, "in"));
  const Schedule schedule = make_schedule(op_def(*dense).compute(*dense, inputs), find_target("cascadelake"));
  EXPECT_EQ(schedule.rule, "tiles");
  const LoopKernel kernel = run_loop_passes(lower_schedule(schedule, inputs, "dense"), {});
  const ConstantPtr x = some_bytes(kRows, kDepth);
  std::vector<int32_t> sums(kRows * kUnits);
  auto span_of = [](const ConstantPtr& c) {
    return std::span<std::byte>(const_cast<std::byte*>(c->bytes), c->size);
  };
  evaluate(kernel, {span_of(x), span_of(packed), std::as_writable_bytes(std::span<int32_t>(sums))}, {});
  EXPECT_EQ(sums, sums_of_bytes<int8_t>(x, weight, 0));
}

TEST(TilesOfBytes, AreForCpusThatMultiplyThem) {
  const Graph graph = quantised_product(64, byte_sized_weight(64, 64));
  const auto code_for = [&](const char* name) {
    const Target target = with_precision(find_target(name), Precision::kAuto);
    std::string code;
    for (const LoopKernel& kernel : lower_program(graph, target, {}).kernels)
      code += emit_assembly(kernel, target);
    return code;
  };
  for (const char* name : {"cascadelake", "znver5", "sapphirerapids"})
    EXPECT_NE(code_for(name).find("vpdpbusd"), std::string::npos) << name;
  EXPECT_EQ(code_for("x86-64-v4").find("vpdpbusd"), std::string::npos);
}

TEST(TilePolicy, UsesTilesOnlyWhereThePrecisionAsksForThem) {
  const Graph graph = parse_graph(
      "fn @main(%x: Tensor[(64, 256), f32]) -> Tensor[(64, 256), f32] {\n"
      "  %y = nn.dense(%x, @w: Tensor[(256, 256), f32], units=256)\n  return %y\n}\n",
      op_set());
  auto uses_tiles = [&](const char* precision, const char* target) {
    CompileOptions options;
    options.precision = find_precision(precision);
    const LoweredProgram program = lower_program(graph, find_target(target), options);
    return test::has(program.kernels.at(0), StmtKind::kTile);
  };
  EXPECT_TRUE(uses_tiles("auto", kTarget));
  EXPECT_TRUE(uses_tiles("bf16", kTarget));
  EXPECT_FALSE(uses_tiles("fp32", kTarget));
  EXPECT_FALSE(uses_tiles("auto", "x86-64-v4"));
  for (const char* precision : {"bf16", "fp32-split", "fp32-split3"}) {
    EXPECT_TRUE(uses_tiles(precision, kArmTarget)) << precision;
    EXPECT_TRUE(uses_tiles(precision, "neoverse-v1")) << precision;
    EXPECT_TRUE(uses_tiles(precision, "cortex-a510")) << precision;
  }
  for (const char* precision : {"bf16", "fp32-split", "fp32-split3"}) {
    EXPECT_TRUE(uses_tiles(precision, kVectorTarget)) << precision;
    EXPECT_TRUE(uses_tiles(precision, "znver4")) << precision;
  }
  EXPECT_FALSE(uses_tiles("auto", kArmTarget));
  EXPECT_FALSE(uses_tiles("auto", "znver4"));
  EXPECT_THROW(uses_tiles("bf16", "neoverse-n1"), Error);
  EXPECT_THROW(uses_tiles("bf16", "x86-64-v4"), Error);
  EXPECT_THROW(uses_tiles("fp32-split", "aarch64"), Error);
  try {
    uses_tiles("fp32-split3", "cortex-a76");
    FAIL() << "a CPU without bfmmla";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("add +bf16"), std::string::npos) << error.what();
  }
}

/// A residual block between a first layer of few channels and a classifier.
Graph small_network() {
  const std::string conv = "dilations=[1, 1], padding=(1, 1, 1, 1))\n";
  return parse_graph(
      "fn @main(%x: Tensor[(1, 3, 33, 30), f32]) -> Tensor[(1, 10), f32] {\n"
      "  %a = nn.conv(%x, @w1: Tensor[(32, 3, 3, 3), f32], channels=32, kernel=[3, 3], strides=[2, 2], " +
          conv +
          "  %b = nn.relu(%a)\n"
          "  %c = nn.conv(%b, @w2: Tensor[(32, 32, 3, 3), f32], channels=32, kernel=[3, 3], strides=[1, "
          "1], " +
          conv +
          "  %d = add(%c, %b)\n"
          "  %e = nn.relu(%d)\n"
          "  %f = mean(%e, axes=[2, 3], keepdims=true)\n"
          "  %g = reshape(%f, shape=(1, 32))\n"
          "  %y = nn.dense(%g, @w3: Tensor[(32, 10), f32], units=10)\n  return %y\n}\n",
      op_set(),
      {{"w1", testing::random_tensor(DType::kF32, {32, 3, 3, 3}, 1)},
       {"w2", testing::random_tensor(DType::kF32, {32, 32, 3, 3}, 2)},
       {"w3", testing::random_tensor(DType::kF32, {32, 10}, 3)}});
}

/// `result`: of the network in a precision, for the same data.
void expect_precisions(const std::function<ConstantPtr(const char* precision)>& result) {
  const ConstantPtr exact = result("fp32");
  const double bf16 = testing::relative_error(*result("bf16"), *exact);
  EXPECT_LT(bf16, 2e-2);
  EXPECT_GT(bf16, 1e-5) << "computed in f32";
  EXPECT_LT(testing::relative_error(*result("fp32-split"), *exact), 1e-5);
  EXPECT_LT(testing::relative_error(*result("fp32-split3"), *exact), 5e-6);
}

TEST(TilePolicy, ComputesNetworksForArmInThePrecisionAskedFor) {
  if (!testing::emulated_board_program())
    GTEST_SKIP() << "no qemu-aarch64, or no gantry-device built for AArch64";
  const Graph graph = small_network();
  const ConstantPtr x = testing::random_tensor(DType::kF32, {1, 3, 33, 30}, 4);
  testing::EmulatedBoard board;
  expect_precisions([&](const char* precision) {
    const auto module = testing::compile_to_bytes(graph, {.target = kArmTarget, .precision = precision});
    return testing::run_on_board(board.client(), module, {x}).at(0);
  });
}

TEST(TilePolicy, ComputesNetworksByVectorsInThePrecisionAskedFor) {
  if (!this_cpu_has("avx512bf16")) GTEST_SKIP() << "this machine has no vector products of bf16 (avx512bf16)";
  const Graph graph = parse_graph(
      "fn @main(%x: Tensor[(64, 256), f32]) -> Tensor[(64, 96), f32] {\n"
      "  %a = nn.dense(%x, @w1: Tensor[(256, 320), f32], units=320)\n"
      "  %b = nn.relu(%a)\n"
      "  %y = nn.dense(%b, @w2: Tensor[(320, 96), f32], units=96)\n  return %y\n}\n",
      op_set(),
      {{"w1", testing::random_tensor(DType::kF32, {256, 320}, 1)},
       {"w2", testing::random_tensor(DType::kF32, {320, 96}, 2)}});
  const ConstantPtr x = testing::random_tensor(DType::kF32, {64, 256}, 4);
  expect_precisions([&](const char* precision) {
    const auto module = testing::compile_to_bytes(graph, {.target = kVectorTarget, .precision = precision});
    return testing::LocalModel(module, 2).run({x}).at(0);
  });
}

TEST(TilePolicy, LeavesImagesOfUnknownSizeToMultiplyAdds) {
  const Graph graph = parse_graph(
      "fn @main(%x: Tensor[(1, 64, h, w), f32]) -> Tensor[(1, 64, h, w), f32] {\n"
      "  %y = nn.conv(%x, @w: Tensor[(64, 64, 1, 1), f32], channels=64, kernel=[1, 1], strides=[1, 1], "
      "dilations=[1, 1], padding=(0, 0, 0, 0))\n  return %y\n}\n",
      op_set());
  for (const LoopKernel& kernel : lower_program(graph, find_target(kTarget), {}).kernels)
    EXPECT_FALSE(test::has(kernel, StmtKind::kTile));
}

TEST(TilePolicy, ProductsOfNothingTakeNoKernel) {
  const Graph graph = parse_graph(
      "fn @main(%a: Tensor[(2, 0, 8), f32], %b: Tensor[(2, 8, 0), f32]) -> Tensor[(2, 0, 0), f32] {\n"
      "  %y = matmul(%a, %b)\n  return %y\n}\n",
      op_set());
  for (const char* target : {kTarget, "x86-64-v3"})
    EXPECT_EQ(lower_program(graph, find_target(target), {}).kernels.size(), 0U);
}

}  // namespace
}  // namespace gantry
