// Matrix products of u8 by i8 on tiles, whose sums are exact.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "host/codegen/find_target.h"
#include "host/loops/evaluate.h"
#include "host/loops/lower.h"
#include "host/targets/common/schedule_rules.h"
#include "host/tensor/interpret.h"
#include "tests/targets/cpu/tile_products.h"

namespace gantry {
namespace {

using namespace test;

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
ConstantPtr some_bytes(const std::vector<int64_t>& shape) {
  return some_integers<uint8_t>(DType::kU8, shape, 3, 0, 255);
}
ConstantPtr some_bytes(int64_t rows, int64_t depth) {
  return some_bytes({rows, depth});
}

template <typename Weight>
std::vector<int32_t> sums_of_bytes(const ConstantPtr& x, const ConstantPtr& w, int32_t zero_point) {
  const auto depth = w->type.shape[0].value(), units = w->type.shape[1].value(),
             rows = static_cast<int64_t>(x->size) / depth;
  std::vector<int32_t> sums(static_cast<size_t>(rows * units), 0);
  for (int64_t m = 0; m < rows; ++m)
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t n = 0; n < units; ++n)
        sums[static_cast<size_t>(m * units + n)] +=
            (x->as<uint8_t>()[m * depth + k] - zero_point) * int32_t(w->as<Weight>()[k * units + n]);
  return sums;
}

constexpr int32_t kZeroPoint = 117;
const int64_t kVpdpbusdColumnTiles = geometry_of(kVpdpbusd).column_tiles;

/// As quantised models have it: (x - zero point) in i32 times a constant. `rows`: "3", or "N", or "B, S".
Graph quantised_product(const std::string& rows, const ConstantPtr& weight) {
  const int64_t depth = weight->type.shape[0].value(), units = weight->type.shape[1].value();
  return parse_graph(fmt::format("fn @main(%x: Tensor[({0}, {1}), u8]) -> Tensor[({0}, {2}), i32] {{\n"
                                 "  %0 = cast(%x, to=i32)\n  %1 = subtract(%0, const(i32, [], [{3}]))\n"
                                 "  %2 = matmul(%1, @w: Tensor[({1}, {2}), i32])\n  return %2\n}}\n",
                                 rows, depth, units, kZeroPoint),
                     op_set(), {{"w", weight}});
}
Graph quantised_product(int64_t rows, const ConstantPtr& weight) {
  return quantised_product(std::to_string(rows), weight);
}

void expect_sums(const ConstantPtr& y, const ConstantPtr& x, const ConstantPtr& weight) {
  const auto expected = sums_of_bytes<int32_t>(x, weight, kZeroPoint);
  ASSERT_EQ(y->size, expected.size() * sizeof(int32_t));
  EXPECT_EQ(std::vector<int32_t>(y->as<int32_t>(), y->as<int32_t>() + expected.size()), expected)
      << x->type.str() << " by " << weight->type.str();
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
    expect_sums(y, x, weight);
  }
}

TEST(TilesOfBytes, GiveTheSumsOfEveryFewRows) {
  if (!this_cpu_has("avx512vnni"))
    GTEST_SKIP() << "this machine has no vector products of bytes (avx512vnni)";
  constexpr std::array<int64_t, 3> kUnits{40, 129, 256};
  for (int64_t rows = 1; rows <= 20; ++rows) {
    const int64_t depth = 61 + rows, units = kUnits[static_cast<size_t>(rows) % kUnits.size()];
    const ConstantPtr weight = byte_sized_weight(depth, units), x = some_bytes(rows, depth);
    expect_sums(run_graph(quantised_product(rows, weight), x, kVpdpbusd), x, weight);
  }
}

/// One program for all of these shapes of the data but their last dimension.
void expect_open_sums(const std::string& rows, int64_t depth, int64_t units,
                      const std::vector<std::vector<int64_t>>& shapes) {
  const ConstantPtr weight = byte_sized_weight(depth, units);
  const auto module =
      testing::compile_to_bytes(quantised_product(rows, weight), {.target = target_with(kVpdpbusd)});
  for (int threads : {1, 2, 3}) {
    testing::LocalModel model(module, threads);
    for (std::vector<int64_t> shape : shapes) {
      shape.push_back(depth);
      const ConstantPtr x = some_bytes(shape);
      expect_sums(model.run({x}).at(0), x, weight);
    }
  }
}

TEST(TilesOfBytes, GiveTheSumsOfAsManyRowsAsThereAre) {
  if (!this_cpu_has("avx512vnni"))
    GTEST_SKIP() << "this machine has no vector products of bytes (avx512vnni)";
  std::vector<std::vector<int64_t>> shapes;
  for (int64_t rows = 1; rows <= 20; ++rows) shapes.push_back({rows});
  for (int64_t rows : {27, 28, 29, 126, 127, 300}) shapes.push_back({rows});
  for (auto [depth, units] : {std::array<int64_t, 2>{33, 129}, {70, 40}, {131, 256}, {5, 16}})
    expect_open_sums("N", depth, units, shapes);
}

TEST(TilesOfBytes, GiveTheSumsOfOpenBatchesOfSequences) {
  if (!this_cpu_has("avx512vnni"))
    GTEST_SKIP() << "this machine has no vector products of bytes (avx512vnni)";
  expect_open_sums("B, S", 70, 96, {{1, 1}, {1, 5}, {3, 7}, {2, 14}, {2, 100}});
  expect_open_sums("B, 1", 70, 96, {{1, 1}, {5, 1}, {29, 1}});
  // Enough rows to share these out.
  expect_open_sums("B, 150", 70, 96, {{1, 150}, {2, 150}, {3, 150}});
  expect_open_sums("B, 150", 3072, 96, {{1, 150}, {3, 150}});
}

/// A product on tiles, as nodes: that of its packed weight, and its own.
class ProductOnTiles {
 public:
  ProductOnTiles(const std::string& rows, int64_t depth, int64_t units)
      : weight_(some_integers<int8_t>(DType::kI8, {depth, units}, 2, -128, 127)),
        graph_(parse_graph(
            fmt::format(
                "fn @main(%x: Tensor[({0}, {1}), u8]) -> Tensor[({0}, {2}), i32] {{\n"
                "  %u = nn.tile_weight(@w: Tensor[({1}, {2}), i8], parts=1, column_tiles={3}, dense=true, "
                "tile_unit=vpdpbusd)\n"
                "  %y = nn.dense(%x, %u, units={2}, tile_parts=1, tile_unit=vpdpbusd)\n  return %y\n}}\n",
                rows, depth, units, tile_columns(kVpdpbusd, units)),
            op_set(), {{"w", weight_}})),
        packed_(op_def(packing()).fold(packing()).at(0)) {}

  const Node& packing() const { return *graph_.main.nodes().at(0); }
  const ConstantPtr& weight() const { return weight_; }
  const ConstantPtr& packed() const { return packed_; }
  LoopKernel nest() const {
    const Node& dense = *graph_.main.nodes().at(1);
    std::vector<Tensor> inputs;
    for (const Value* input : dense.inputs)
      inputs.push_back(placeholder(to_exprs(input->type.shape), input->type.dtype, "in"));
    const Schedule schedule = make_schedule(op_def(dense).compute(dense, inputs), find_target("cascadelake"));
    EXPECT_EQ(schedule.rule, "tiles");
    return lower_schedule(schedule, inputs, "dense");
  }
  /// What the loops compute of so many rows; `size`: of the open dimension.
  void expect_product(const LoopKernel& kernel, int64_t rows, int64_t size) const {
    const ConstantPtr x = some_bytes(rows, weight_->type.shape[0].value());
    std::vector<int32_t> sums(static_cast<size_t>(rows * weight_->type.shape[1].value()));
    auto span_of = [](const ConstantPtr& c) {
      return std::span<std::byte>(const_cast<std::byte*>(c->bytes), c->size);
    };
    std::map<std::string, int64_t> symbols;
    for (const std::string& name : kernel.symbols) symbols[name] = size;
    evaluate(kernel, {span_of(x), span_of(packed_), std::as_writable_bytes(std::span<int32_t>(sums))},
             symbols);
    EXPECT_EQ(sums, sums_of_bytes<int8_t>(x, weight_, 0)) << rows << " rows";
  }

 private:
  ConstantPtr weight_;
  Graph graph_;
  ConstantPtr packed_;
};

TEST(TilesOfBytes, HaveWeightsPackedAsTheirExpressionSays) {
  const ProductOnTiles product("31", 70, 40);
  const Tensor w = placeholder(to_exprs(product.weight()->type.shape), DType::kI8, "w");
  const Node& packing = product.packing();
  const auto interpreted =
      interpret(op_def(packing).compute(packing, {w}), {{w.op().get(), product.weight()}});
  ASSERT_EQ(product.packed()->type, interpreted.at(0)->type);
  EXPECT_EQ(0, std::memcmp(product.packed()->bytes, interpreted.at(0)->bytes, product.packed()->size));
}

TEST(TilesOfBytes, HaveLoopsThatComputeTheProductWhereverTheyAreEvaluated) {
  for (int64_t rows : {1, 2, 4, 6, 31}) {
    const ProductOnTiles product(std::to_string(rows), 70, 200);
    product.expect_product(run_loop_passes(product.nest(), {}), rows, rows);
  }
}

TEST(TilesOfBytes, HaveLoopsForAnyNumberOfRows) {
  const ProductOnTiles product("N", 70, 40);
  const LoopKernel kernel = run_loop_passes(product.nest(), {});
  for (int64_t rows = 1; rows <= 30; ++rows) product.expect_product(kernel, rows, rows);
}

TEST(TilesOfBytes, HaveLoopsForOpenBlocksOfGreatDepth) {
  // Each part of the depth passes all rows of a block, whose sums lie in memory until the next one.
  const ProductOnTiles product("N, 150", 1600, 32);
  const LoopKernel kernel = run_loop_passes(product.nest(), {});
  for (int64_t size : {1, 2}) product.expect_product(kernel, 150 * size, size);
}

int64_t count_tiles(const Stmt& body, TileNode::Op op) {
  int64_t count = 0;
  walk(
      body,
      [&](const Stmt& s) {
        const auto* tile = s.as<TileNode>();
        count += tile != nullptr && tile->op == op ? 1 : 0;
      },
      nullptr);
  return count;
}

TEST(TilesOfBytes, AreAsManyAsThereAreRowsWhereARunTellsTheirNumber) {
  std::set<int64_t> heights;
  const auto add = [&](const Stmt& branch) {
    bool branches = false;
    if (branch)
      walk(
          branch, [&](const Stmt& s) { branches |= s->kind == StmtKind::kIf; }, nullptr);
    if (branch && !branches) heights.insert(count_tiles(branch, TileNode::Op::kZero) / kVpdpbusdColumnTiles);
  };
  walk(
      ProductOnTiles("N", 64, 256).nest().body,
      [&](const Stmt& s) {
        const auto* node = s.as<IfNode>();
        if (node == nullptr) return;
        add(node->then_case);
        add(node->else_case);
      },
      nullptr);
  heights.erase(0);  // conditions of other statements
  ASSERT_FALSE(heights.empty());
  EXPECT_EQ(*heights.begin(), 1);
  EXPECT_EQ(*heights.rbegin(), geometry_of(kVpdpbusd).row_tiles);
  // One row more than a lower one holds is at least two thirds of the next.
  for (auto lower = heights.begin(), next = std::next(lower); next != heights.end(); lower = next++)
    EXPECT_LT(*next * 2, (*lower + 1) * 3);
}

// Each accumulator waits for itself: with fewer at once than are on their way, the unit idles.
TEST(TilesOfBytes, OfFewRowsAreEnoughColumnsToKeepTheUnitBusy) {
  const MachineModel machine = find_target("cascadelake").machine;
  for (int64_t rows = 1; rows <= 14; ++rows) {
    const int64_t accumulators =
        count_tiles(ProductOnTiles(std::to_string(rows), 64, 256).nest().body, TileNode::Op::kZero);
    EXPECT_GE(double(accumulators), machine.fma_latency * machine.fma_per_cycle) << rows << " rows";
    EXPECT_LE(accumulators, geometry_of(kVpdpbusd).registers - 2) << rows << " rows";
  }
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

}  // namespace
}  // namespace gantry
