#include "host/passes/canonicalize.h"
#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

// Alone, without dead_code before it.
TEST(MoveElementwiseBeforeViews, MovesWhatNothingReadsLikeAnythingElse) {
  EXPECT_THAT(after("fn @main(%x: Tensor[(4, 4), f32]) -> Tensor[(4, 4), f32] {\n  %0 = exp(%x)\n"
                    "  %1 = reshape(%0, shape=(16))\n  %2 = tanh(%1)\n  %3 = sin(%x)\n  return %3\n}",
                    [](Graph& graph) {
                      move_elementwise_before_views(graph, fresh_context());
                      dead_code(graph, fresh_context());
                    }),
              IsGraph("fn @main(%x: Tensor[(4, 4), f32]) -> Tensor[(4, 4), f32] {\n  %0 = sin(%x)\n  return %0\n}"));
}

std::string moved(const std::string& text) {
  return after(text, [](Graph& graph) {
    move_elementwise_before_views(graph, fresh_context());
    dead_code(graph, fresh_context());
  });
}

TEST(MoveElementwiseBeforeViews, TakesConstantsOfOneElementAlongAsScalars) {
  EXPECT_THAT(moved("fn @main(%x: Tensor[(4, 4), f32]) -> Tensor[(16), f32] {\n  %0 = exp(%x)\n"
                    "  %1 = reshape(%0, shape=(16))\n  %2 = multiply(%1, const(f32, [1], [3]))\n  return %2\n}"),
              IsGraph("fn @main(%x: Tensor[(4, 4), f32]) -> Tensor[(16), f32] {\n  %0 = exp(%x)\n"
                      "  %1 = reshape(const(f32, [1], [3]), shape=())\n  %2 = multiply(%0, %1)\n"
                      "  %3 = reshape(%2, shape=(16))\n  return %3\n}"));
}

// Its parameters are vectors along an axis that the view may give another place, even where they have one element.
TEST(MoveElementwiseBeforeViews, BatchNormalisationStays) {
  const std::string parameters =
      "const(f32, [1], [3]), const(f32, [1], [0.5]), const(f32, [1], [2]), const(f32, [1], [0.25])";
  const std::string text =
      "fn @main(%x: Tensor[(4, 4), f32]) -> Tensor[(4, 1, 4), f32] {\n  %0 = exp(%x)\n"
      "  %1 = reshape(%0, shape=(4, 1, 4))\n  %2 = nn.batch_norm(%1, " +
      parameters + ")\n  return %2\n}";
  EXPECT_THAT(moved(text), IsGraph(text));
}

}  // namespace
}  // namespace gantry
