#include "host/passes/strided_view.h"
#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string recognized(const std::string& text) {
  return after(text, [](Graph& graph) {
    PassContext context;
    context.attention = {8, 16};
    recognize_attention(graph, context);
    fold_constant(graph, fresh_context());
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
      AllOf(HasSubstr("nn.attention(%q, %k, %v, %bias,"), Not(HasSubstr(" bias_chooses=true")),
            HasSubstr("bias2_chooses=true")));
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

/// Heads in two groups of three that share keys and values.
std::string grouped_heads(const std::string& mask) {
  std::string text =
      "fn @main(%q: Tensor[(B, 6, R, 16), f32], %k: Tensor[(B, 2, K, 16), f32], "
      "%v: Tensor[(B, 2, K, 16), f32], %mask: Tensor[(B, 1, R, K), f32]) -> Tensor[(B, 6, R, 16), f32] {\n";
  for (std::string name : {"k", "v"}) {
    text += "  %" + name + "1 = reshape(%" + name + ", shape=(B, 2, 1, K, 16))\n";
    text += "  %" + name + "2 = broadcast_to(%" + name + "1, shape=(B, 2, 3, K, 16))\n";
    text += "  %" + name + "3 = reshape(%" + name + "2, shape=(B, 6, K, 16))\n";
  }
  return text + "  %t = transpose(%k3, axes=[0, 1, 3, 2])\n  %s = matmul(%q, %t)\n" + mask +
         "  %w = nn.softmax(%p, axis=3)\n  %y = matmul(%w, %v3)\n  return %y\n}";
}

TEST(RecognizeAttention, HeadsThatShareKeysReadThemWhereTheyAre) {
  const std::string text = recognized(grouped_heads("  %p = multiply(%s, const(f32, [], [0.25]))\n"));
  EXPECT_THAT(text, AllOf(HasSubstr("nn.attention(%q, %k, %v, batch=(B, 2, 3), queries=R, keys=K"),
                          HasSubstr("query=(0, 96*R, 48*R, 16*R, 16), key=(0, 32*K, 16*K, 0, 16), "
                                    "value=(0, 32*K, 16*K, 0, 16), result=(0, 96*R, 48*R, 16*R, 16)"),
                          Not(HasSubstr("broadcast_to"))))
      << text;
}

TEST(RecognizeAttention, RepeatedMasksAreReadOnce) {
  const std::string text =
      recognized(grouped_heads("  %m = broadcast_to(%mask, shape=(B, 6, R, K))\n  %p = add(%s, %m)\n"));
  EXPECT_THAT(text, AllOf(HasSubstr("transpose(%mask, axes=[0, 1, 3, 2])"),
                          HasSubstr("bias=(0, K*R, 0, 0, 1, R)"), Not(HasSubstr("broadcast_to"))))
      << text;
}

// Rows of windows (4 of 6 x 6 pixels each) follow each other in a copy only, which the keys are read from as
// they are without their transposition.
TEST(RecognizeAttention, RowsThatNoStrideLeadsAlongAreCopied) {
  std::string text =
      "fn @main(%q: Tensor[(4, 36, 16), f32], %i: Tensor[(2, 6, 2, 6, 16), f32], %v: Tensor[(4, 36, 16), "
      "f32])"
      " -> Tensor[(4, 36, 16), f32] {\n"
      "  %w = transpose(%i, axes=[0, 2, 1, 3, 4])\n  %k = reshape(%w, shape=(4, 36, 16))\n"
      "  %t = transpose(%k, axes=[0, 2, 1])\n  %s = matmul(%q, %t)\n  %p = nn.softmax(%s, axis=2)\n"
      "  %y = matmul(%p, %v)\n  return %y\n}";
  EXPECT_THAT(recognized(text), AllOf(HasSubstr("reshape("), HasSubstr("nn.attention(%q, %"),
                                      HasSubstr("key=(0, 576, 16)"), Not(HasSubstr("nn.softmax"))))
      << recognized(text);
}

TEST(RecognizeAttention, AFewQueriesStayProducts) {
  EXPECT_THAT(recognized(heads("  %p = divide(%s, const(f32, [], [4]))\n", "", "3")),
              Not(HasSubstr("nn.attention")));
}

Shape strides_of(std::vector<AxisPart> parts, const Shape& shape) {
  return strides_as(parts, shape).value_or(Shape{-1});
}

TEST(StridedView, AxesSplitAndMergeWhereTheyFollowEachOther) {
  const Dim n = Dim::symbol("N");
  const Shape none{-1};
  EXPECT_EQ(strides_of({{n, 12}, {12, 1}}, {n, 3, 4}), (Shape{12, 4, 1}));
  EXPECT_EQ(strides_of({{n, 12}, {3, 4}, {4, 1}}, {n, 12}), (Shape{12, 1}));
  EXPECT_EQ(strides_of({{2, n * 4}, {n, 4}, {4, 1}}, {1, n * 2, 4}), (Shape{0, 4, 1}));
  EXPECT_EQ(strides_of({{n, 4}, {3, n * 4}, {4, 1}}, {n, 12}), none);
  EXPECT_EQ(strides_of({{6, 4}, {4, 1}}, {4, 6}), (Shape{6, 1}));
  EXPECT_EQ(strides_of({{6, 5}, {4, 1}}, {4, 6}), none);
  EXPECT_EQ(strides_of({{6, 0}}, {2, 3}), (Shape{0, 0}));
  EXPECT_EQ(strides_of({{0, 4}, {4, 1}}, {0, 2, 2}), none);
  EXPECT_EQ(strides_of({{3, 2}, {2, 1}}, {3, 3}), none);
  EXPECT_EQ(strides_of({{3, 2}, {2, 1}}, {3}), none);
}

TEST(StridedView, AnAxisIsMadeOfPartsThatDoNotFollowEachOther) {
  const auto axes = regroup({{8, 64}, {4, 0}, {64, 1}}, {32, 64});
  ASSERT_TRUE(axes);
  ASSERT_EQ((*axes)[0].size(), 2u);
  EXPECT_EQ((*axes)[0][0].extent, Dim(8));
  EXPECT_EQ((*axes)[0][0].stride, Dim(64));
  EXPECT_EQ((*axes)[0][1].extent, Dim(4));
  EXPECT_EQ((*axes)[0][1].stride, Dim(0));
  EXPECT_EQ((*axes)[1].size(), 1u);
}

}  // namespace
}  // namespace gantry
