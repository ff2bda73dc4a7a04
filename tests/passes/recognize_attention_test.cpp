#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <stdexcept>

#include "host/ops/attention.h"
#include "host/ops/movement.h"
#include "host/passes/strided_view.h"
#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

using testing::Contains;
using testing::ElementsAre;

std::string recognized(const std::string& text) {
  return after(text, [](Graph& graph) {
    PassContext context;
    context.attention = {8, 16};
    recognize_attention(graph, context);
    fold_constant(graph, fresh_context());
  });
}

std::string text_of(const Shape& dims) {
  std::string text;
  for (const Dim& dim : dims) text += (text.empty() ? "" : ", ") + dim.str();
  return text;
}

/// What is left after the pass, without dead nodes, with one nn.attention in it.
class Recognized {
 public:
  explicit Recognized(const std::string& text) : graph_(parse_graph(recognized(text), table())) {
    dead_code(graph_, fresh_context());
    for (const Node* node : graph_.main.nodes()) {
      if (node->is(nn::attention)) attention_ = node;
    }
    if (attention_ == nullptr) throw std::runtime_error("no attention in " + print(graph_, table()));
  }

  const AttentionAttrs& attrs() const { return *attention_->match(nn::attention); }
  std::vector<std::string> ops() const {
    std::vector<std::string> names;
    for (const Node* node : graph_.main.nodes()) names.push_back(node->op->name);
    return names;
  }
  /// "%q", or "transpose([0, 2, 1]) of %bias".
  std::vector<std::string> inputs() const {
    std::vector<std::string> texts;
    for (const Value* input : attention_->inputs) {
      if (input != nullptr) texts.push_back(text_of_input(*input));
    }
    return texts;
  }
  std::vector<float> constants() const {
    std::vector<float> values;
    for (const Value* value : graph_.main.constants()) values.push_back(*value->constant->as<float>());
    return values;
  }

 private:
  static std::string text_of_input(const Value& value) {
    if (value.producer == nullptr) return "%" + value.name;
    const auto* attrs = value.producer->match(op::transpose);
    if (attrs == nullptr) return value.producer->op->name;
    return fmt::format("transpose([{}]) of %{}", fmt::join(attrs->axes, ", "), value.producer->inputs[0]->name);
  }

  Graph graph_;
  const Node* attention_ = nullptr;
};

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
  const Recognized found(heads("  %p = divide(%s, const(f32, [], [4]))\n"));
  EXPECT_THAT(found.ops(), ElementsAre("nn.attention", "reshape")) << "the reshape of the heads, a view";
  EXPECT_THAT(found.inputs(), ElementsAre("%q", "%k", "%v"));
  const AttentionAttrs& attrs = found.attrs();
  EXPECT_EQ(text_of(attrs.batch), "B, 2");
  EXPECT_EQ(text_of({attrs.queries, attrs.keys, attrs.depth, attrs.width}), "R, R, 16, 16");
  EXPECT_EQ(attrs.scale, 0.25);
  for (const Shape& place : {attrs.query, attrs.key, attrs.value, attrs.result})
    EXPECT_EQ(text_of(place), "0, 32*R, 16, 32");
}

TEST(RecognizeAttention, MasksOfKeysBecomeBiases) {
  const Recognized found(heads("  %m = multiply(%s, const(f32, [], [0.5]))\n  %p = add(%m, %mask)\n",
                               ", %mask: Tensor[(B, 1, 1, R), f32]"));
  EXPECT_THAT(found.inputs(), ElementsAre("%q", "%k", "%v", "%mask"));
  EXPECT_EQ(found.attrs().scale, 0.5);
  EXPECT_EQ(text_of(found.attrs().bias), "0, R, 0, 0, 1");
}

TEST(RecognizeAttention, BiasesWithARowForEachQueryAreTransposed) {
  const Recognized found(heads("  %p = add(%bias, %s)\n", ", %bias: Tensor[(2, R, R), f32]"));
  EXPECT_THAT(found.inputs(), ElementsAre("%q", "%k", "%v", "transpose([0, 2, 1]) of %bias"));
  EXPECT_EQ(text_of(found.attrs().bias), "0, 0, R*R, 1, R");
}

TEST(RecognizeAttention, MasksThatChooseReplaceScores) {
  const std::string mask = ", %mask: Tensor[(R, R), bool]";
  for (std::string score : {"-inf", "-1e9", "-5"}) {
    const std::string constant = "const(f32, [], [" + score + "])";
    const Recognized chosen(heads("  %p = where(%mask, " + constant + ", %s)\n", mask));
    EXPECT_TRUE(chosen.attrs().bias_chooses);
    EXPECT_THAT(chosen.constants(), Contains(std::numeric_limits<float>::infinity())) << "for scores that are kept";
    EXPECT_TRUE(Recognized(heads("  %p = where(%mask, %s, " + constant + ")\n", mask)).attrs().bias_chooses);
  }
  const std::string infinite = heads("  %p = where(%mask, const(f32, [], [inf]), %s)\n", mask);
  EXPECT_THAT(recognized(infinite), IsGraph(infinite));
}

TEST(RecognizeAttention, TheFirstBiasIsTheOneThatScoresMeetFirst) {
  const std::string extra = ", %mask: Tensor[(R, R), bool], %bias: Tensor[(B, 1, 1, R), f32]";
  const Recognized found(heads("  %m = add(%s, %bias)\n  %p = where(%mask, const(f32, [], [-5]), %m)\n", extra));
  EXPECT_EQ(found.inputs()[3], "%bias");
  EXPECT_FALSE(found.attrs().bias_chooses);
  EXPECT_TRUE(found.attrs().bias2_chooses);
}

// Either operand of a sum may be the scores: both are the same here, and so on upwards, to 2^64 ways.
TEST(RecognizeAttention, SumsOfAValueWithItselfAreFollowedOnceEach) {
  std::string sums, last = "s";
  for (int i = 0; i < 64; ++i) {
    const std::string next = i == 63 ? "p" : fmt::format("d{}", i);
    sums += fmt::format("  %{} = add(%{}, %{})\n", next, last, last);
    last = next;
  }
  EXPECT_THAT(recognized(heads(sums)), IsGraph(heads(sums)));
}

TEST(RecognizeAttention, ScoresWithMoreThanTwoBiasesStayASoftmax) {
  const std::string text = heads("  %a = add(%s, %bias)\n  %b = add(%bias, %a)\n  %p = add(%b, %bias)\n",
                                 ", %bias: Tensor[(2, R, R), f32]");
  EXPECT_THAT(recognized(text), IsGraph(text));
}

TEST(RecognizeAttention, ScalesBehindABiasScaleItToo) {
  const std::string bias = ", %mask: Tensor[(B, 1, 1, R), f32]";
  const Recognized scaled(heads("  %m = add(%s, %mask)\n  %p = multiply(%m, const(f32, [], [0.5]))\n", bias));
  EXPECT_EQ(scaled.attrs().scale, 0.5);
  EXPECT_THAT(scaled.ops(), ElementsAre("multiply", "nn.attention", "reshape"));
  EXPECT_THAT(scaled.constants(), ElementsAre(0.5f));
  const std::string mask = ", %mask: Tensor[(R, R), bool]";
  const auto chosen = [&](const std::string& factor) {
    return heads("  %m = where(%mask, const(f32, [], [-6]), %s)\n  %p = multiply(%m, const(f32, [], [" + factor +
                     "]))\n",
                 mask);
  };
  EXPECT_THAT(Recognized(chosen("0.5")).constants(), Contains(-3.0f)) << "half of -6";
  EXPECT_THAT(recognized(chosen("-0.5")), IsGraph(chosen("-0.5")));
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
  const Recognized found(grouped_heads("  %p = multiply(%s, const(f32, [], [0.25]))\n"));
  EXPECT_THAT(found.ops(), ElementsAre("nn.attention"));
  EXPECT_THAT(found.inputs(), ElementsAre("%q", "%k", "%v"));
  const AttentionAttrs& attrs = found.attrs();
  EXPECT_EQ(text_of(attrs.batch), "B, 2, 3");
  EXPECT_EQ(text_of({attrs.queries, attrs.keys}), "R, K");
  for (const Shape& place : {attrs.query, attrs.result}) EXPECT_EQ(text_of(place), "0, 96*R, 48*R, 16*R, 16");
  for (const Shape& place : {attrs.key, attrs.value})
    EXPECT_EQ(text_of(place), "0, 32*K, 16*K, 0, 16") << "no step from one of three to the next";
}

TEST(RecognizeAttention, RepeatedMasksAreReadOnce) {
  const Recognized found(grouped_heads("  %m = broadcast_to(%mask, shape=(B, 6, R, K))\n  %p = add(%s, %m)\n"));
  EXPECT_THAT(found.ops(), ElementsAre("transpose", "nn.attention"));
  EXPECT_EQ(found.inputs()[3], "transpose([0, 1, 3, 2]) of %mask");
  EXPECT_EQ(text_of(found.attrs().bias), "0, K*R, 0, 0, 1, R");
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
  const Recognized found(text);
  EXPECT_THAT(found.ops(), ElementsAre("transpose", "reshape", "nn.attention"));
  EXPECT_EQ(text_of(found.attrs().key), "0, 576, 16");
}

/// Keys that an index selects from an axis of that extent; `where`: what is said of sizes.
std::string selected_keys(const std::string& extent, const std::string& index,
                          const std::string& where = "") {
  return "fn @main(%q: Tensor[(B, 64, 16), f32], %k: Tensor[(B, " + extent +
         ", 64, 16), f32], %v: Tensor[(B, 64, 16), f32]) -> Tensor[(B, 64, 16), f32] {\n" + where +
         "  %g = gather(%k, const(i64, [], [" + index +
         "]), axis=1)\n  %t = transpose(%g, axes=[0, 2, 1])\n" +
         "  %s = matmul(%q, %t)\n  %w = nn.softmax(%s, axis=2)\n  %y = matmul(%w, %v)\n  return %y\n}";
}

TEST(RecognizeAttention, SelectionsAreReadWhereTheyAreIfTheyAreInsideWhateverTheSize) {
  const auto key_of = [](const std::string& text) {
    const Recognized found(text);
    return found.inputs()[1] + ": " + text_of(found.attrs().key);
  };
  EXPECT_EQ(key_of(selected_keys("3", "2")), "%k: 2048, 3072, 16");
  EXPECT_EQ(key_of(selected_keys("3", "-3")), "%k: 0, 3072, 16");
  EXPECT_EQ(key_of(selected_keys("S", "0")), "%k: 0, 1024*S, 16");
  EXPECT_EQ(key_of(selected_keys("S", "-1")), "%k: 1024*S-1024, 1024*S, 16");
  EXPECT_EQ(key_of(selected_keys("S", "2", "  where S in 3..\n")), "%k: 2048, 1024*S, 16");
  const std::string copied = "gather: 0, 1024, 16";
  for (const char* index : {"3", "7", "-4"}) EXPECT_EQ(key_of(selected_keys("3", index)), copied) << index;
  for (const char* index : {"2", "-2"}) EXPECT_EQ(key_of(selected_keys("S", index)), copied) << index;
  for (const char* index : {"3", "-4"})
    EXPECT_EQ(key_of(selected_keys("S", index, "  where S in 3..\n")), copied) << index;
}

TEST(RecognizeAttention, AFewQueriesStayProducts) {
  const std::string text = heads("  %p = divide(%s, const(f32, [], [4]))\n", "", "3");
  EXPECT_THAT(recognized(text), IsGraph(text));
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
