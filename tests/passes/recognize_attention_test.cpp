#include "host/passes/strided_view.h"
#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string recognized(const std::string& text) {
  return after(text, [](Graph& graph) {
    recognize_attention(graph, {8, 16});
    fold_constant(graph);
  });
}

/// Heads of (batch, rows, 2 * 16) tensors; `middle` leads from %s to %p, the scores from product to softmax.
std::string heads(const std::string& middle, const std::string& extra = "", const std::string& rows = "R") {
  const std::string whole = "Tensor[(B, " + rows + ", 32), f32]";
  std::string text =
      "fn @main(%q: " + whole + ", %k: " + whole + ", %v: " + whole + extra + ") -> " + whole + " {\n";
  for (std::string name : {"q", "k", "v"}) {
    text += "  %" + name + "1 = reshape(%" + name + ", shape=(B, " + rows + ", 2, 16))\n";
    text += "  %" + name + "2 = transpose(%" + name +
            "1, axes=" + (name == "k" ? "[0, 2, 3, 1]" : "[0, 2, 1, 3]") + ")\n";
  }
  return text + "  %s = matmul(%q2, %k2)\n" + middle +
         "  %w = nn.softmax(%p, axis=3)\n  %y = matmul(%w, %v2)\n" +
         "  %t = transpose(%y, axes=[0, 2, 1, 3])\n  %r = reshape(%t, shape=(B, " + rows +
         ", 32))\n  return %r\n}";
}

TEST(RecognizeAttention, ReadsHeadsFromTheProjectionsAndWritesThemBack) {
  const std::string text = recognized(heads("  %p = divide(%s, const(f32, [], [4]))\n"));
  EXPECT_THAT(text,
              AllOf(HasSubstr("nn.attention(%q, %k, %v, batch=(B, 2), queries=R, keys=R, depth=16, width=16, "
                              "scale=0.25, query=(0, 32*R, 16, 32), key=(0, 32*R, 16, 32), "
                              "value=(0, 32*R, 16, 32), result=(0, 32*R, 16, 32)"),
                    Not(HasSubstr("transpose")), Not(HasSubstr("softmax"))));
}

TEST(RecognizeAttention, MasksOfKeysBecomeBiases) {
  const std::string text =
      recognized(heads("  %m = multiply(%s, const(f32, [], [0.5]))\n  %p = add(%m, %mask)\n",
                       ", %mask: Tensor[(B, 1, 1, R), f32]"));
  EXPECT_THAT(text, AllOf(HasSubstr("nn.attention(%q, %k, %v, %mask"), HasSubstr("scale=0.5"),
                          HasSubstr("bias=(0, R, 0, 0, 1)")));
}

TEST(RecognizeAttention, BiasesWithARowForEachQueryAreTransposed) {
  const std::string text = recognized(heads("  %p = add(%bias, %s)\n", ", %bias: Tensor[(2, R, R), f32]"));
  EXPECT_THAT(text, AllOf(HasSubstr("transpose(%bias, axes=[0, 2, 1])"), HasSubstr("nn.attention"),
                          HasSubstr("bias=(0, 0, R*R, 1, R)")))
      << text;
}

TEST(RecognizeAttention, MasksThatChooseReplaceScores) {
  const std::string mask = ", %mask: Tensor[(R, R), bool]";
  for (std::string score : {"-inf", "-1e9", "-5"}) {
    const std::string constant = "const(f32, [], [" + score + "])";
    EXPECT_THAT(
        recognized(heads("  %p = where(%mask, " + constant + ", %s)\n", mask)),
        AllOf(HasSubstr("nn.attention"), HasSubstr("bias_chooses=true"), HasSubstr("const(f32, [], [inf])")));
    EXPECT_THAT(recognized(heads("  %p = where(%mask, %s, " + constant + ")\n", mask)),
                AllOf(HasSubstr("nn.attention"), HasSubstr("bias_chooses=true")));
  }
  EXPECT_THAT(recognized(heads("  %p = where(%mask, const(f32, [], [inf]), %s)\n", mask)),
              Not(HasSubstr("nn.attention")));
}

TEST(RecognizeAttention, TheFirstBiasIsTheOneThatScoresMeetFirst) {
  const std::string extra = ", %mask: Tensor[(R, R), bool], %bias: Tensor[(B, 1, 1, R), f32]";
  EXPECT_THAT(
      recognized(heads("  %m = add(%s, %bias)\n  %p = where(%mask, const(f32, [], [-5]), %m)\n", extra)),
      AllOf(HasSubstr("nn.attention(%q, %k, %v, %bias,"),
            HasSubstr("bias_chooses=false, bias2_chooses=true")));
}

TEST(RecognizeAttention, ScalesBehindABiasScaleItToo) {
  const std::string bias = ", %mask: Tensor[(B, 1, 1, R), f32]";
  EXPECT_THAT(recognized(heads("  %m = add(%s, %mask)\n  %p = multiply(%m, const(f32, [], [0.5]))\n", bias)),
              AllOf(HasSubstr("nn.attention"), HasSubstr("scale=0.5"),
                    HasSubstr("multiply(%mask, const(f32, [], [0.5]))")));
  const std::string mask = ", %mask: Tensor[(R, R), bool]";
  EXPECT_THAT(recognized(heads("  %m = where(%mask, const(f32, [], [-6]), %s)\n"
                               "  %p = multiply(%m, const(f32, [], [0.5]))\n",
                               mask)),
              AllOf(HasSubstr("nn.attention"), HasSubstr("where(%mask, const(f32, [], [-3])")));
  EXPECT_THAT(recognized(heads("  %m = where(%mask, const(f32, [], [-6]), %s)\n"
                               "  %p = multiply(%m, const(f32, [], [-0.5]))\n",
                               mask)),
              Not(HasSubstr("nn.attention")));
}

TEST(RecognizeAttention, AFewQueriesStayProducts) {
  EXPECT_THAT(recognized(heads("  %p = divide(%s, const(f32, [], [4]))\n", "", "3")),
              Not(HasSubstr("nn.attention")));
}

TEST(StridedView, AxesSplitAndMergeWhereTheyFollowEachOther) {
  const Dim n = Dim::symbol("N");
  EXPECT_EQ(reshape_strides({n, 12}, {12, 1}, {n, 3, 4}), (Shape{12, 4, 1}));
  EXPECT_EQ(reshape_strides({n, 3, 4}, {12, 4, 1}, {n, 12}), (Shape{12, 1}));
  EXPECT_EQ(reshape_strides({2, n, 4}, {n * 4, 4, 1}, {1, n * 2, 4}), (Shape{0, 4, 1}));
  EXPECT_EQ(reshape_strides({n, 3, 4}, {4, n * 4, 1}, {n, 12}), std::nullopt);
  EXPECT_EQ(reshape_strides({6, 4}, {4, 1}, {4, 6}), (Shape{6, 1}));
  EXPECT_EQ(reshape_strides({6, 4}, {5, 1}, {4, 6}), std::nullopt);
  EXPECT_EQ(reshape_strides({6}, {0}, {2, 3}), (Shape{0, 0}));
}

}  // namespace
}  // namespace gantry
