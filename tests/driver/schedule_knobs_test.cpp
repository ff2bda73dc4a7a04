// Knobs of schedules that decisions give: they are in the loops, and results stay what they are.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "host/codegen/find_target.h"
#include "host/driver/decision_file.h"
#include "host/driver/program.h"
#include "host/ops/op.h"
#include "host/support/error.h"
#include "tests/driver/graph_evaluation.h"
#include "tests/support/small_weights.h"

namespace gantry {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

Graph product(const std::string& decision) {
  return parse_graph(
      fmt::format("fn @main(%x: Tensor[(128, 64), f32]) -> Tensor[(128, 96), f32] {{\n"
                  "  %y = nn.dense(%x, @w: Tensor[(64, 96), f32], units=96) {}\n  return %y\n}}\n",
                  decision),
      op_set(), {{"w", testing::small_weights({64, 96})}});
}

Graph convolution(int channels, const std::string& decision) {
  return parse_graph(
      fmt::format("fn @main(%x: Tensor[(1, {0}, 12, 12), f32]) -> Tensor[(1, {0}, 12, 12), f32] {{\n"
                  "  %y = nn.conv(%x, @w: Tensor[({0}, {0}, 3, 3), f32], channels={0}, kernel=[3, 3], strides=[1, 1], "
                  "dilations=[1, 1], padding=(1, 1, 1, 1)) {1}\n  return %y\n}}\n",
                  channels, decision),
      op_set(), {{"w", testing::small_weights({channels, channels, 3, 3})}});
}

/// Elements of the buffers that kernels make for themselves.
std::set<int64_t> buffers(const Graph& graph, const Target& target) {
  std::set<int64_t> sizes;
  for (const LoopKernel& kernel : build_program(graph, target, {}).kernels) {
    walk(
        kernel.body,
        [&](const Stmt& statement) {
          const auto* allocated = statement.as<AllocateNode>();
          const auto* count = allocated != nullptr ? allocated->buffer->element_count.as<IntImmNode>() : nullptr;
          if (count != nullptr) sizes.insert(count->value);
        },
        [](const Expr&) {});
  }
  return sizes;
}

/// `error`: of the largest result.
void expect_same_results(const Graph& graph, const Target& target, double error = 0) {
  const test::Arguments arguments = test::random_arguments(graph, {});
  const std::vector<float> expected = test::interpret_graph(graph, arguments);
  const std::vector<float> actual = test::evaluate_program(graph, target, 3, arguments, {});
  ASSERT_EQ(actual.size(), expected.size());
  double largest = 0, difference = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    largest = std::max(largest, std::abs(double(expected[i])));
    difference = std::max(difference, std::abs(double(actual[i]) - double(expected[i])));
  }
  EXPECT_LE(difference, error * largest);
}

void expect_refused(const Graph& graph, const Target& target, const char* why,
                    const CompileOptions& options = {}) {
  try {
    build_program(graph, target, options);
    ADD_FAILURE() << "taken, although " << why;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(why));
  }
}

TEST(ScheduleKnobs, OneThatDoesNotFitIsSaidOfTheLineThatGivesIt) {
  CompileOptions options;
  options.decisions = std::make_shared<DecisionFile>(
      DecisionFile::parse("\nnn.dense {form=packed, block=16, rows=9}  // fc\n", "mine.txt"));
  expect_refused(product(" // fc"), find_target("x86-64-v3"),
                 "mine.txt:2: nn.dense of fc: rows=9 does not fit: ", options);
}

TEST(ScheduleKnobs, RowsOfRegisterTilesOfProducts) {
  const Target target = with_precision(find_target("x86-64-v3"), Precision::kFp32);
  for (int rows : {3, 5}) {
    const Graph graph = product(fmt::format("{{form=packed, block=16, rows={}}}", rows));
    EXPECT_THAT(buffers(graph, target), Contains(rows * 16));
    EXPECT_THAT(buffers(graph, target), Not(Contains((8 - rows) * 16)));
    expect_same_results(graph, target);
  }
  expect_refused(product("{form=packed, block=16, rows=9}"), target, "rows=9 does not fit: ");
  expect_refused(product("{form=packed, block=16, rows=15}"), target, "rows of form packed is 1 to 14, not 15");
}

TEST(ScheduleKnobs, RowsOfRegisterTilesOfConvolutions) {
  const Target target = with_precision(find_target("x86-64-v3"), Precision::kFp32);
  for (int rows : {3, 5}) {
    const Graph graph = convolution(16, fmt::format("{{form=direct, block=16, rows={}}}", rows));
    EXPECT_THAT(buffers(graph, target), Contains(rows * 16));
    EXPECT_THAT(buffers(graph, target), Not(Contains((8 - rows) * 16)));
    expect_same_results(graph, target);
  }
  expect_refused(convolution(16, "{form=direct, block=16, rows=9}"), target, "rows=9 does not fit: ");
}

TEST(ScheduleKnobs, ChunksOfWinogradsAlgorithm) {
  const Target target = with_precision(find_target("x86-64-v3"), Precision::kFp32);
  // 6 x 6 tiles of 2 x 2 results, 16 positions each.
  for (int chunk : {9, 12}) {
    const Graph graph = convolution(32, fmt::format("{{form=winograd2, block=16, chunk={}, input_first=0}}", chunk));
    EXPECT_THAT(buffers(graph, target), Contains(16 * chunk * 16)) << "products of a block";
    EXPECT_THAT(buffers(graph, target), Contains(16 * chunk * 32)) << "all inputs of a chunk, for itself";
    expect_same_results(graph, target, 1e-5);
  }
  const Graph first = convolution(32, "{form=winograd2, block=16, chunk=9, input_first=1}");
  EXPECT_THAT(buffers(first, target), Not(Contains(16 * 9 * 32)));
  expect_same_results(first, target, 1e-5);
  expect_refused(convolution(32, "{form=winograd2, block=16, chunk=37}"), target, "chunk=37 does not fit: ");
}

TEST(ScheduleKnobs, BlocksOfProductsOnTileUnits) {
  const Target target = with_precision(find_target("sapphirerapids"), Precision::kFp32Split3);
  for (const auto& [rows, columns] : {std::pair{32, 32}, {32, 96}, {64, 32}}) {
    const Graph graph = product(fmt::format("{{form=tiles, parts=3, rows={}, columns={}}}", rows, columns));
    EXPECT_THAT(buffers(graph, target), Contains(rows * columns)) << rows << " by " << columns;
    expect_same_results(graph, target);
  }
  // 3 parts of 2 blocks of 32 along the depth, of a block's rows alone or of all.
  const Graph own = product("{form=tiles, parts=3, rows=32, own_rows=1}");
  const Graph shared = product("{form=tiles, parts=3, rows=32, own_rows=0}");
  EXPECT_THAT(buffers(own, target), Contains(3 * 2 * 32 * 32));
  EXPECT_THAT(buffers(shared, target), Not(Contains(3 * 2 * 32 * 32)));
  expect_same_results(own, target);
  expect_same_results(shared, target);
  expect_refused(product("{form=tiles, parts=3, rows=31}"), target, "rows=31 does not fit: there are blocks of 128, 64, 43, 32");
}

TEST(ScheduleKnobs, PartsOfTheDepthOnTileUnits) {
  const Target target = with_precision(find_target("sapphirerapids"), Precision::kFp32Split3);
  const Graph parts = product("{form=tiles, parts=3, depth_parts=2}");
  const auto kernel = [&](const Graph& graph) { return to_string(build_program(graph, target, {}).kernels.at(0)); };
  EXPECT_NE(kernel(parts), kernel(product("{form=tiles, parts=3, depth_parts=1}")));
  EXPECT_EQ(kernel(product("{form=tiles, parts=3}")), kernel(product("{form=tiles, parts=3, depth_parts=1}")));
  expect_same_results(parts, target);
}

TEST(ScheduleKnobs, TilesOfProductsOnGpus) {
  const Target target = find_target("cuda-emulated:sm_80");
  for (const auto& [rows, columns] : {std::pair{32, 64}, {64, 32}}) {
    const Graph graph =
        product(fmt::format("{{form=gemm, block_rows={}, block_columns={}, block_depth=8, split=1}}", rows, columns));
    const std::set<int64_t> sizes = buffers(graph, target);
    // With four elements beside each row of a tile; twice where the next one is loaded meanwhile.
    for (int64_t extent : {rows, columns}) {
      const int64_t elements = 8 * (extent + 4);
      EXPECT_TRUE(sizes.contains(elements) || sizes.contains(2 * elements)) << rows << " by " << columns;
    }
    expect_same_results(graph, target);
  }
  expect_refused(product("{form=gemm, block_rows=48}"), target, "block_rows=48 does not fit: ");
}

}  // namespace
}  // namespace gantry
