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

}  // namespace
}  // namespace gantry
