// --optimize size: weights no larger than the model's, and the same results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "host/codegen/find_target.h"
#include "host/ops/op.h"
#include "host/support/error.h"
#include "tests/driver/graph_evaluation.h"

namespace gantry::test {
namespace {

uint64_t weights_bytes(const Graph& graph, const Target& target, Optimize optimize,
                       Precision precision = Precision::kAuto) {
  CompileOptions options;
  options.targets = {target};
  options.optimize = optimize;
  options.precision = precision;
  const ModuleFile module = compile_graph(graph, options);
  EXPECT_EQ(module.manifest.optimize, name_of(optimize));
  uint64_t bytes = 0;
  for (const auto& constant : module.manifest.variants.at(0)->constants) bytes += constant.size();
  return bytes;
}

/// The first output with --optimize size, beside the default's.
void expect_equal_results(const Graph& graph, const Target& target) {
  const Arguments arguments = random_arguments(graph, {});
  const std::vector<float> expected = interpret_graph(graph, arguments),
                           small = evaluate_program(graph, target, 3, arguments, {}, Optimize::kSize);
  ASSERT_EQ(small.size(), expected.size());
  float largest = 0, difference = 0;
  for (size_t i = 0; i < small.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    difference = std::max(difference, std::abs(expected[i] - small[i]));
  }
  EXPECT_LE(difference, 1e-5f * largest) << target.name;
}

ConstantPtr numbers(const Shape& shape) {
  std::byte* bytes = nullptr;
  const ConstantPtr constant = allocate_constant({DType::kF32, shape}, &bytes);
  auto* values = reinterpret_cast<float*>(bytes);
  for (size_t i = 0; i < constant->size / sizeof(float); ++i) values[i] = float(i * 7 % 15) - 7;
  return constant;
}

/// Of images of `side` pixels: channels that Winograd's algorithm is the fastest for, groups that are better
/// merged, and a classifier.
Graph network(int side = 28) {
  const std::string s = std::to_string(side);
  return parse_graph(
      "fn @main(%x: Tensor[(1, 64, " + s + ", " + s +
          "), f32]) -> Tensor[(1, 100), f32] {\n"
          "  %a = nn.conv(%x, @w: Tensor[(64, 64, 3, 3), f32], channels=64, kernel=[3, 3], strides=[1, 1], "
          "dilations=[1, 1], padding=(1, 1, 1, 1))\n"
          "  %b = nn.relu(%a)\n"
          "  %c = nn.conv(%b, @g: Tensor[(64, 4, 3, 3), f32], channels=64, kernel=[3, 3], strides=[1, 1], "
          "dilations=[1, 1], padding=(1, 1, 1, 1), groups=16)\n"
          "  %d = mean(%c, axes=[2, 3], keepdims=false)\n"
          "  %e = nn.dense(%d, @v: Tensor[(64, 100), f32], units=100)\n  return %e\n}\n",
      op_set(), {{"w", numbers({64, 64, 3, 3})}, {"g", numbers({64, 4, 3, 3})}, {"v", numbers({64, 100})}});
}
constexpr uint64_t kNetworkBytes = 4 * (64 * 64 * 9 + 64 * 4 * 9 + 64 * 100);

TEST(OptimizeSize, WeightsAreAsLargeAsTheModels) {
  for (const char* name : {"x86-64-v3", "x86-64-v4", "aarch64"}) {
    const Target target = find_target(name);
    const uint64_t speed = weights_bytes(network(), target, Optimize::kSpeed),
                   size = weights_bytes(network(), target, Optimize::kSize);
    EXPECT_GT(speed, kNetworkBytes * 3 / 2) << name;
    EXPECT_LE(size, kNetworkBytes * 9 / 8) << name;
  }
}

TEST(OptimizeSize, PartsOfWeightsForTileRegistersAreNoLargerThanTheModels) {
  const Target target = find_target("sapphirerapids");
  EXPECT_LE(weights_bytes(network(), target, Optimize::kSize, Precision::kFp32Split3), kNetworkBytes * 9 / 8);
  EXPECT_LE(weights_bytes(network(), target, Optimize::kSize), kNetworkBytes * 9 / 8);
}

TEST(OptimizeSize, ResultsAreThoseOfTheModel) {
  for (const char* name : {"x86-64-v3", "aarch64"}) expect_equal_results(network(8), find_target(name));
}

TEST(OptimizeSize, ATableThatIsAMatrixTooIsStoredOnce) {
  const std::string text =
      "fn @main(%x: Tensor[(4, 64), f32], %i: Tensor[(4), i64]) -> (Tensor[(4, 512), f32], Tensor[(4, 64), "
      "f32]) {\n"
      "  %t = transpose(@table: Tensor[(512, 64), f32], axes=[1, 0])\n"
      "  %p = nn.dense(%x, %t, units=512)\n"
      "  %g = gather(@table, %i, axis=0)\n  return %p, %g\n}\n";
  const Graph graph = parse_graph(text, op_set(), {{"table", numbers({512, 64})}});
  const Target target = find_target("x86-64-v3");
  constexpr uint64_t kTable = 4 * 512 * 64;
  EXPECT_GT(weights_bytes(graph, target, Optimize::kSpeed), kTable * 3 / 2);
  EXPECT_LE(weights_bytes(graph, target, Optimize::kSize), kTable * 9 / 8);
}

TEST(OptimizeSize, OtherWordsAreRefused) {
  EXPECT_EQ(find_optimize("size"), Optimize::kSize);
  EXPECT_THROW(find_optimize("small"), Error);
}

}  // namespace
}  // namespace gantry::test
