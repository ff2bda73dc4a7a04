// Matrix products of u8 by i8 on tiles, whose sums are exact.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <span>
#include <string>

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

}  // namespace
}  // namespace gantry
