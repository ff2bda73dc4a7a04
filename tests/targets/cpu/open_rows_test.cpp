// Products on tiles of bf16 of which only a run tells how many rows there are: their loops, evaluated
// everywhere, and how much of the tiles a run computes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "host/codegen/find_target.h"
#include "host/loops/evaluate.h"
#include "host/loops/lower.h"
#include "host/support/divide.h"
#include "host/targets/common/schedule_rules.h"
#include "tests/targets/cpu/tile_products.h"

namespace gantry {
namespace {

using namespace test;

/// What a run does.
struct Work {
  int64_t tiles = 0, dots = 0, loads = 0, stores = 0;  ///< instructions of the tile unit; tiles that begin
  int64_t row_elements = 0;                            ///< of the operand, made for the unit
};

/// Makes a kernel count what it does, in one more result.
class WorkCounter : public StmtMutator {
 public:
  explicit WorkCounter(LoopKernel& kernel) {
    std::vector<Stmt> body;
    for (int64_t i = 0; i < kCounts; ++i) body.push_back(store(counts_, Expr(i), Expr(0)));
    body.push_back(mutate_stmt(kernel.body));
    kernel.body = block(std::move(body));
    kernel.arguments.push_back(counts_);
  }
  static constexpr int64_t kCounts = sizeof(Work) / sizeof(int64_t);

 protected:
  Stmt mutate_tile(const TileNode* node, const Stmt& self) override {
    switch (node->op) {
      case TileNode::Op::kZero:
        return counted(offsetof(Work, tiles), 1, self);
      case TileNode::Op::kDot:
        return counted(offsetof(Work, dots), 1, self);
      case TileNode::Op::kLoad:
        return counted(offsetof(Work, loads), 1, self);
      case TileNode::Op::kStore:
        return counted(offsetof(Work, stores), 1, self);
      default:
        return self;
    }
  }
  Stmt mutate_store(const StoreNode* node, const Stmt& self) override {
    if (!node->buffer->name.starts_with("tile_rows")) return self;
    return counted(offsetof(Work, row_elements), node->index.type().lanes, self);
  }

 private:
  Stmt counted(size_t offset, int64_t more, const Stmt& self) const {
    const Expr at(static_cast<int64_t>(offset / sizeof(int64_t)));
    return block({store(counts_, at, load(counts_, at) + Expr(more)), self});
  }

  Buffer counts_ = std::make_shared<BufferNode>(
      BufferNode{"counts", DType::kI64, Expr(kCounts), BufferScope::kArgument, alignof(int64_t)});
};

/// The kernel of a network's product with its weight, the second and the first of its nodes.
class OpenProduct {
 public:
  OpenProduct(const Graph& graph, TileUnit unit) : units_(units_of(graph)) {
    const Node &packing = *graph.main.nodes().at(0), &product = *graph.main.nodes().at(1);
    packed_ = op_def(packing).fold(packing).at(0);
    std::vector<Tensor> inputs;
    for (const Value* input : product.inputs)
      inputs.push_back(placeholder(to_exprs(input->type.shape), input->type.dtype, "in"));
    const Schedule schedule =
        make_schedule(op_def(product).compute(product, inputs), find_target(target_with(unit)));
    EXPECT_EQ(schedule.rule, "tiles");
    kernel_ = run_loop_passes(lower_schedule(schedule, inputs, "product"), {});
    WorkCounter{kernel_};
  }

  /// Of so many rows; `size`: of the open dimension.
  std::pair<ConstantPtr, Work> run(const ConstantPtr& x, int64_t rows, int64_t size) const {
    std::byte* bytes = nullptr;
    const ConstantPtr result = allocate_constant({DType::kF32, {rows, units_}}, &bytes);
    std::array<int64_t, WorkCounter::kCounts> counts{};
    std::map<std::string, int64_t> symbols;
    for (const std::string& name : kernel_.symbols) symbols[name] = size;
    const auto span_of = [](const ConstantPtr& c) {
      return std::span<std::byte>(const_cast<std::byte*>(c->bytes), c->size);
    };
    evaluate(kernel_,
             {span_of(x), span_of(packed_), {bytes, result->size}, std::as_writable_bytes(std::span(counts))},
             symbols);
    return {result, {counts[0], counts[1], counts[2], counts[3], counts[4]}};
  }

 private:
  static int64_t units_of(const Graph& graph) {
    return graph.main.nodes().at(1)->result()->type.shape.back().value();
  }

  int64_t units_;
  ConstantPtr packed_;
  LoopKernel kernel_;
};

/// A matrix of any number of rows by a weight.
class OpenDense {
 public:
  OpenDense(int64_t depth, int64_t units, const Arithmetic& by)
      : depth_(depth),
        units_(units),
        by_(by),
        graph_(dense_network("N", depth, units, by)),
        product_(graph_, by.unit) {}

  /// The product as it is defined.
  Work expect_product(int64_t rows) const {
    const ConstantPtr x = testing::random_tensor(DType::kF32, {rows, depth_}, 5);
    const auto* weight = graph_.main.constants().at(0)->constant->as<float>();
    const auto [result, work] = product_.run(x, rows, rows);
    EXPECT_LT(relative_error(result, expected_product(x->as<float>(), weight, rows, depth_, units_)),
              bound(by_))
        << rows << " x " << depth_ << " x " << units_;
    return work;
  }

 private:
  int64_t depth_, units_;
  Arithmetic by_;
  Graph graph_;
  OpenProduct product_;
};

class OpenRows : public ::testing::TestWithParam<TileUnit> {
 protected:
  const TileGeometry& tile() const { return geometry_of(GetParam()); }
  /// Rows of tiles that hold so many rows.
  int64_t row_tiles(int64_t rows) const { return ceil_div(rows, tile().rows); }
};
INSTANTIATE_TEST_SUITE_P(Units, OpenRows, ::testing::Values(kAmx, kBfmmla, kVdpbf16ps),
                         [](const auto& test) { return std::string(name_of(test.param)); });

constexpr std::array<int64_t, 11> kLengths{1, 2, 15, 16, 17, 31, 32, 33, 100, 128, 129};

TEST_P(OpenRows, AreMultipliedHoweverManyThereAre) {
  const OpenDense dense(70, 40, {GetParam(), 2});
  for (int64_t rows : kLengths) dense.expect_product(rows);
}

// An operand that fits the second-level cache with a block of weights, and one that does not: parts of the
// depth pass all rows of a block one after the other.
TEST_P(OpenRows, AreMultipliedOverDepthsThatAreCut) {
  for (int64_t depth : {2080, 3136}) {
    const OpenDense dense(depth, 32, {GetParam(), 1});
    for (int64_t rows : {1, 17, 33, 129}) dense.expect_product(rows);
  }
}

TEST_P(OpenRows, AreThePointsOfAnyNumberOfImages) {
  for (int64_t images : {1, 3, 6, 22}) {
    const Layer layer{.batch = images,
                      .height = 4,
                      .width = 6,
                      .inputs = 20,
                      .outputs = 24,
                      .kernel = 2,
                      .stride = 2,
                      .padding = {0, 0, 0, 0}};
    const Graph graph = network(layer, {GetParam(), 2}, "n");
    const ConstantPtr x = testing::random_tensor(DType::kF32, layer.data(), 7);
    ConstantPtr result = OpenProduct(graph, GetParam()).run(x, images * 6, images).first;
    auto* values = const_cast<float*>(result->as<float>());
    for (int64_t i = 0; i < images * 6 * layer.outputs; ++i) values[i] = std::max(values[i], 0.0F);
    EXPECT_LT(relative_error(result, layer.rectified(x->as<float>(), graph.main.constants().at(0)->constant)),
              bound({GetParam(), 2}))
        << images << " images";
  }
}

TEST_P(OpenRows, TakeNoMoreTilesThanHoldThem) {
  constexpr int64_t kDepth = 70, kUnits = 96;
  const OpenDense dense(kDepth, kUnits, {GetParam(), 1});
  const int64_t columns = kUnits / tile().columns;
  const int64_t steps = ceil_div(kDepth, tile().block_depth) * tile().block_depth / tile().depth;
  for (int64_t rows : kLengths) {
    const Work work = dense.expect_product(rows);
    const int64_t needed = row_tiles(rows) * columns;
    EXPECT_GE(work.tiles, needed) << rows << " rows";
    // Fourteen tiles of one row have not all heights: up to half as many more are computed.
    EXPECT_LE(work.tiles, tile().rows > 1 ? needed : needed * 3 / 2) << rows << " rows";
    EXPECT_EQ(work.stores, work.tiles) << rows << " rows";
    EXPECT_EQ(work.dots, work.tiles * steps) << rows << " rows";
    EXPECT_LE(work.loads, 2 * work.dots) << rows << " rows";
  }
}

TEST_P(OpenRows, TakeTheWorkOfOneTileWhereTheyFitIt) {
  const OpenDense dense(70, 96, {GetParam(), 1});
  const Work one = dense.expect_product(1), full = dense.expect_product(tile().rows);
  EXPECT_EQ(one.tiles, full.tiles);
  EXPECT_EQ(one.dots, full.dots);
  EXPECT_EQ(one.loads, full.loads);
  EXPECT_EQ(one.stores, full.stores);
  EXPECT_EQ(one.row_elements, full.row_elements);
}

/// Units of single rows make those of the operand again for every block of columns.
class OpenRowsOfHighTiles : public OpenRows {};
INSTANTIATE_TEST_SUITE_P(Units, OpenRowsOfHighTiles, ::testing::Values(kAmx, kBfmmla),
                         [](const auto& test) { return std::string(name_of(test.param)); });

// By each block for itself, or by all together where the operand is large.
TEST_P(OpenRowsOfHighTiles, AreMadeOnceAsFarAsTilesReadThem) {
  const int64_t together = tile().row_tiles * tile().rows;
  for (int64_t depth : {70, 3136}) {
    const OpenDense dense(depth, 32, {GetParam(), 1});
    for (int64_t rows : {1, 33, 129}) {
      EXPECT_EQ(
          dense.expect_product(rows).row_elements,
          ceil_div(rows, together) * together * ceil_div(depth, tile().block_depth) * tile().row_elements())
          << rows << " x " << depth;
    }
  }
}

}  // namespace
}  // namespace gantry
