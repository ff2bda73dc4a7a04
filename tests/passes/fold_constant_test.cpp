#include <algorithm>
#include <utility>

#include "host/ops/builder.h"
#include "host/ops/elementwise.h"
#include "host/ops/movement.h"
#include "host/support/spill_file.h"
#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

TEST(FoldConstant, EvaluatesWhatDependsOnConstantsOnly) {
  EXPECT_EQ(after(R"(fn @main(%x: Tensor[(N, 2), f32]) -> Tensor[(N, 2), f32] {
  %0 = add(const(f32, [2], [1, 2]), const(f32, [2], [0.5, 10]))
  %1 = nn.relu(%0)
  %2 = multiply(%x, %1)  // Mul
  return %2
})",
                  fold_constant),
            R"(fn @main(%x: Tensor[(N, 2), f32]) -> Tensor[(N, 2), f32] {
  %2 = multiply(%x, const(f32, [2], [1.5, 12]))  // Mul
  return %2
}
)");
}

TEST(FoldConstant, MovesDataAndReduces) {
  EXPECT_EQ(after(R"(fn @main() -> (Tensor[(3, 2), i64], Tensor[(2), f32]) {
  %0 = transpose(const(i64, [2, 3], [1, 2, 3, 4, 5, 6]), axes=[1, 0])
  %1 = sum(const(f32, [2, 3], [1, 2, 3, 4, 5, 6]), axes=[1], keepdims=false)
  return %0 as "t", %1 as "s"
})",
                  fold_constant),
            R"(fn @main() -> (Tensor[(3, 2), i64], Tensor[(2), f32]) {
  return const(i64, [3, 2], [1, 4, 2, 5, 3, 6]) as "t", const(f32, [2], [6, 15]) as "s"
}
)");
}

TEST(FoldConstant, ViewsShareTheBytesOfTheirInput) {
  Graph graph = parse_graph(R"(fn @main(%x: Tensor[(8, 8), f32]) -> Tensor[(8, 8), f32] {
  %0 = reshape(@w: Tensor[(64), f32], shape=(8, 8))
  %1 = add(%x, %0)
  return %1
})",
                            table());
  const std::byte* bytes = graph.main.nodes()[0]->inputs[0]->constant->bytes;
  fold_constant(graph, fresh_context());
  verify(graph, table(), "fold_constant");
  ASSERT_EQ(graph.main.nodes().size(), 1u);
  const Value* folded = graph.main.nodes()[0]->inputs[1];
  ASSERT_TRUE(folded->is_constant());
  EXPECT_EQ(folded->constant->bytes, bytes);
  EXPECT_EQ(to_string(folded->type.shape), "(8, 8)");
}

/// `count` transpositions of matrices of 8 MiB, each number i of i's.
Graph large_matrices(int count) {
  Graph graph;
  Value* sum = graph.main.add_parameter("x", {DType::kF32, {2048, 1024}});
  for (int i = 1; i <= count; ++i) {
    const std::vector<float> elements(size_t{2} << 20, static_cast<float>(i));
    Value* matrix = graph.main.add_constant("w", make_constant({DType::kF32, {1024, 2048}}, elements.data()));
    TransposeAttrs turn;
    turn.axes = {1, 0};
    const Builder build(graph.main);
    sum = build(op::add, {sum, build(op::transpose, {matrix}, turn)});
  }
  graph.main.outputs = {sum};
  graph.main.output_names = {"y"};
  return graph;
}

TEST(FoldConstant, ResultsThatAreLargeTogetherGoToTheDisk) {
  for (const auto& [count, on_disk] : {std::pair{2, 0}, std::pair{9, 8}}) {
    Graph graph = large_matrices(count);
    SpillFile file(::testing::TempDir());
    PassContext context;
    context.spill = &file;
    fold_constant(graph, context);
    verify(graph, table(), "fold_constant");
    const std::vector<Value*> constants = graph.main.constants();
    ASSERT_EQ(constants.size(), static_cast<size_t>(count));
    EXPECT_EQ(std::ranges::count_if(constants,
                                    [](const Value* value) { return is_spilled(value->constant->owner); }),
              on_disk);
    for (size_t i = 0; i < constants.size(); ++i) {
      const float* elements = constants[i]->constant->as<float>();
      EXPECT_EQ(std::count(elements, elements + (2 << 20), static_cast<float>(i + 1)), 2 << 20);
    }
  }
}

void fold_small(Graph& graph) {
  PassContext context;
  context.small = true;
  fold_constant(graph, context);
}

TEST(FoldWithoutGrowth, LeavesWhatWouldBeLargerThanItsInputs) {
  const std::string text =
      R"(fn @main(%x: Tensor[(64, 4096), f32]) -> (Tensor[(64, 4096), f32], Tensor[(64, 64), f32]) {
  %0 = broadcast_to(const(f32, [1, 1], [3]), shape=(64, 4096))
  %1 = add(%x, %0)
  %2 = matmul(@a: Tensor[(64, 1), f32], @b: Tensor[(1, 64), f32])
  return %1, %2
}
)";
  EXPECT_EQ(after(text, fold_small), text);
}

TEST(FoldWithoutGrowth, FoldsWhatTakesItsInputsPlaceAndSmallThings) {
  EXPECT_THAT(after(R"(fn @main(%x: Tensor[(256, 64), f32]) -> Tensor[(256, 64), f32] {
  %0 = transpose(@w: Tensor[(64, 256), f32], axes=[1, 0])
  %1 = multiply(%0, const(f32, [], [2]))
  %2 = add(%x, %1)
  return %2
})",
                    [](Graph& graph) {
                      fold_small(graph);
                      EXPECT_EQ(graph.main.constants().size(), 1u);
                    }),
              IsGraph("fn @main(%x: Tensor[(256, 64), f32]) -> Tensor[(256, 64), f32] {\n"
                      "  %0 = add(%x, @w: Tensor[(256, 64), f32])\n  return %0\n}"));
}

TEST(FoldWithoutGrowth, CopiesNoWeightThatIsNeededAsItIs) {
  const std::string text =
      R"(fn @main(%i: Tensor[(4), i64], %x: Tensor[(8, 64), f32]) -> (Tensor[(4, 64), f32], Tensor[(8, 512), f32]) {
  %0 = gather(@table: Tensor[(512, 64), f32], %i)
  %1 = transpose(@table, axes=[1, 0])
  %2 = matmul(%x, %1)
  return %0, %2
}
)";
  EXPECT_EQ(after(text, fold_small), text);
}

TEST(FoldConstant, LeavesSymbolicShapesAndHugeResults) {
  const std::string text =
      R"(fn @main(%x: Tensor[(N), f32]) -> (Tensor[(N, 2), f32], Tensor[(10000, 10000), f32]) {
  %0 = broadcast_to(const(f32, [2], [1, 2]), shape=(N, 2))
  %1 = broadcast_to(const(f32, [], [1]), shape=(10000, 10000))
  return %0, %1
}
)";
  EXPECT_EQ(after(text, fold_constant), text);
}

TEST(FoldConstant, DimensionsThatAreKnownBecomeNumbers) {
  EXPECT_EQ(after(R"(fn @main(%x: Tensor[(N), f32]) -> (Tensor[(2), i64], Tensor[(1), i64]) {
  %0 = dims_to_tensor(dims=(3, 4))
  %1 = dims_to_tensor(dims=(N))
  return %0, %1
})",
                  fold_constant),
            R"(fn @main(%x: Tensor[(N), f32]) -> (Tensor[(2), i64], Tensor[(1), i64]) {
  %1 = dims_to_tensor(dims=(N))
  return const(i64, [2], [3, 4]), %1
}
)");
}

}  // namespace
}  // namespace gantry
