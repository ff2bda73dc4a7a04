// The loops of convolutions and matrix products on tiles of bf16, evaluated everywhere, and how they divide
// and prefetch.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string_view>

#include "host/codegen/find_target.h"
#include "host/costs/tile_blocks.h"
#include "host/loops/evaluate.h"
#include "host/loops/lower.h"
#include "host/targets/common/schedule_rules.h"
#include "host/targets/cpu/tile_depth.h"
#include "host/tensor/interpret.h"
#include "tests/targets/cpu/tile_products.h"
#include "tests/targets/nest_facts.h"

namespace gantry {
namespace {

using namespace test;

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
    for (const costs::RowBlocks& blocks : costs::row_blocks(extent, kAmx)) {
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
      for (const costs::RowBlocks& blocks : costs::row_blocks(extent, unit)) {
        EXPECT_GE(blocks.rows, blocks.size);
        EXPECT_EQ(blocks.rows % blocks.unit_rows, 0);
        EXPECT_EQ(blocks.unit_rows % tile.rows, 0);
        EXPECT_LE(blocks.unit_rows, tile.row_tiles * tile.rows);
        EXPECT_LT(blocks.rows - blocks.size, blocks.unit_rows) << "rows in vain, less than one tile";
      }
    }
  }
  // Seven lines of seven results, one column of zeros between two lines: 55 rows.
  const auto lines = costs::line_blocks(1, 7, 7, 8, kAmx);
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

TEST(TileHints, AskForAllWeightsOfTheNextStepWhereNoOtherTilesFollow) {
  // Of an open number of rows: pairs of tiles as of 128 rows, and the single tile that may be the last.
  HintCounter counter;
  counter.mutate_stmt(kernel_of(dense_network("N", 1024, 512, {kAmx, 2}), "nn.dense").body);
  EXPECT_EQ(counter.far, 16);
  EXPECT_EQ(counter.near, 64);
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

}  // namespace
}  // namespace gantry
