// Products of two tensors whose extents only the program knows, compiled for CPUs and run, against float64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

#include "host/ops/op.h"
#include "tests/support/compiled_model.h"

namespace gantry {
namespace {

constexpr int64_t kBatch = 2;

/// (2, m, k) times (2, k, n), or (2, n, k) transposed; against the definition.
double product_error(testing::LocalModel& model, int64_t m, int64_t n, int64_t k, bool transposed) {
  const ConstantPtr a = testing::random_tensor(DType::kF32, {kBatch, m, k}, 3);
  const ConstantPtr b = testing::random_tensor(
      DType::kF32, transposed ? std::vector<int64_t>{kBatch, n, k} : std::vector<int64_t>{kBatch, k, n}, 4);
  const ConstantPtr y = model.run({a, b}).at(0);
  std::vector<double> expected;
  for (int64_t at = 0; at < kBatch * m * n; ++at) {
    const int64_t image = at / (m * n), row = at / n % m, column = at % n;
    double total = 0;
    for (int64_t i = 0; i < k; ++i) {
      const int64_t right = transposed ? (image * n + column) * k + i : (image * k + i) * n + column;
      total += double(a->as<float>()[(image * m + row) * k + i]) * double(b->as<float>()[right]);
    }
    expected.push_back(total);
  }
  return testing::relative_error(*y, expected);
}

class UnknownExtents : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!testing::runs_here(GetParam())) GTEST_SKIP() << "this machine has no " << GetParam();
  }
};

// Fewer columns than a vector, than a block; a block and a few; rows likewise.
TEST_P(UnknownExtents, ProductsMatchTheDefinitionWhateverIsLeftOver) {
  for (const std::string depth : {"48", "k"}) {
    for (bool transposed : {false, true}) {
      testing::LocalModel model(testing::compile_to_bytes(
          parse_graph(fmt::format("fn @main(%a: Tensor[(2, m, {0}), f32], %b: Tensor[({1}), f32]) -> "
                                  "Tensor[(2, m, n), f32] {{\n"
                                  "  %y = matmul(%a, %b, transpose_b={2})\n  return %y\n}}\n",
                                  depth, transposed ? "2, n, " + depth : "2, " + depth + ", n", transposed),
                      op_set()),
          {.target = GetParam()}));
      for (int64_t n : {1, 3, 15, 16, 17, 31, 33, 47, 64, 77}) {
        for (int64_t m : {1, 4, 13, 14, 29}) {
          const int64_t k = depth == "k" ? 37 : 48;
          EXPECT_LT(product_error(model, m, n, k, transposed), 2e-6)
              << m << " x " << k << " x " << n << (transposed ? ", transposed" : "");
        }
      }
    }
  }
}

class TransposedOperand : public UnknownExtents {};

// Depths and columns that blocks of vectors do not divide, sums cut into parts, and rows too few to pack for.
TEST_P(TransposedOperand, ProductsMatchTheDefinition) {
  for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{1, 40, 64},
                                                                   {3, 17, 20},
                                                                   {4, 5, 16},
                                                                   {5, 100, 37},
                                                                   {14, 64, 9},
                                                                   {40, 77, 70},
                                                                   {6, 50, 2050},
                                                                   {30, 33, 1100}}) {
    testing::LocalModel model(testing::compile_to_bytes(
        parse_graph(fmt::format("fn @main(%a: Tensor[(2, {0}, {2}), f32], %b: Tensor[(2, {1}, {2}), f32]) -> "
                                "Tensor[(2, {0}, {1}), f32] {{\n  %t = transpose(%b, axes=[0, 2, 1])\n"
                                "  %y = matmul(%a, %t)\n  return %y\n}}\n",
                                m, n, k),
                    op_set()),
        {.target = GetParam()}));
    EXPECT_LT(product_error(model, m, n, k, true), 2e-6) << m << " x " << k << " x " << n;
  }
}

class LongSums : public UnknownExtents {};

// One chain of so many additions would be off by two to three times as much.
TEST_P(LongSums, AreMadeInParts) {
  for (const auto& [m, n, k] :
       std::vector<std::array<int64_t, 3>>{{6, 48, 4096}, {64, 96, 4096}, {100, 80, 3000}}) {
    testing::LocalModel model(testing::compile_to_bytes(
        parse_graph(fmt::format("fn @main(%a: Tensor[(2, {0}, {2}), f32], %b: Tensor[(2, {2}, {1}), f32]) -> "
                                "Tensor[(2, {0}, {1}), f32] {{\n  %y = matmul(%a, %b)\n  return %y\n}}\n",
                                m, n, k),
                    op_set()),
        {.target = GetParam()}));
    EXPECT_LT(product_error(model, m, n, k, false), 1e-6) << m << " x " << k << " x " << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, LongSums, ::testing::Values("x86-64-v2", "x86-64-v3", "x86-64-v4"));
INSTANTIATE_TEST_SUITE_P(Targets, TransposedOperand,
                         ::testing::Values("x86-64-v2", "x86-64-v3", "x86-64-v4"));
INSTANTIATE_TEST_SUITE_P(Targets, UnknownExtents, ::testing::Values("x86-64-v2", "x86-64-v3", "x86-64-v4"));

}  // namespace
}  // namespace gantry
