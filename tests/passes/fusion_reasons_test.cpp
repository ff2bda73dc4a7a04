// Every rule of grouping says that it was the one, on a small graph each.
#include "host/passes/fusion_reasons.h"

#include <fmt/format.h>

#include <set>
#include <span>

#include "host/passes/fusion_report.h"
#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

using testing::Contains;
using testing::ElementsAre;

std::string told(const FusionReason& reason) {
  return std::string(name_of(reason.rule)) + (reason.other ? " " + reason.other->name : "");
}

/// What grouping puts down: "add follows_anchor nn.conv" of members, "exp>nn.conv read_again_and_again
/// nn.conv" of nodes that stay apart.
std::vector<std::string> reasons_of(const std::string& text, bool enable = true) {
  const Graph graph = parse_graph(text, table());
  FusionRecord record;
  find_fusion_groups(graph.main, enable, &record);
  std::vector<std::string> lines;
  for (const auto& [node, reason] : record.members) lines.push_back(node->op->name + " " + told(reason));
  for (const auto& [edge, reason] : record.apart)
    lines.push_back(edge.first->op->name + ">" + edge.second->op->name + " " + told(reason));
  return lines;
}

const std::string kImage = "Tensor[(1, 4, 8, 8), f32]";

std::string conv(const std::string& input, const std::string& weight = "w") {
  return "nn.conv(" + input + ", @" + weight +
         ": Tensor[(4, 4, 3, 3), f32], channels=4, kernel=[3, 3], strides=[1, 1], dilations=[1, 1], "
         "padding=(1, 1, 1, 1))";
}
/// A function of images. `results`: their types, in the order of `returned`.
std::string images(const std::string& nodes, const std::string& returned,
                   const std::string& results = kImage) {
  return "fn @main(%x: " + kImage + ", %y: " + kImage + ") -> " + results + " {\n" + nodes + "  return " +
         returned + "\n}";
}
/// Of matrices of 4 x 8.
std::string rows(const std::string& nodes, const std::string& returned, const std::string& result) {
  return "fn @main(%x: Tensor[(4, 8), f32], %r: Tensor[(1, 8), f32], %s: Tensor[(1, 1), f32]) -> " + result +
         " {\n" + nodes + "  return " + returned + "\n}";
}
const std::string kRows = "Tensor[(4, 8), f32]", kTwice = "Tensor[(8, 8), f32]";

std::string pool(const std::string& input) {
  return "nn.max_pool(" + input + ", kernel=[3, 3], strides=[1, 1], padding=(1, 1, 1, 1), dilations=[1, 1])";
}

/// A 1x1 convolution on tile registers, which copies its data before it computes.
std::string copying(const std::string& before, const std::string& data) {
  return "fn @main(%x: Tensor[(1, 8, 8, 64), f32]) -> Tensor[(1, 8, 8, 64), f32] {\n" + before +
         "  %c = nn.conv(" + data +
         ", @w: Tensor[(2, 2, 1, 1, 2, 2, 16, 32), bf16], channels=64, kernel=[1, 1], strides=[1, 1], "
         "dilations=[1, 1], padding=(0, 0, 0, 0), channels_last=true, algorithm=tiles, tile_parts=2)\n"
         "  return %c\n}";
}

/// A product that copies its operands into tiles.
std::string into_tiles(const std::string& before) {
  return "fn @main(%x: Tensor[(1, 4, 128, 16), f32]) -> Tensor[(1, 128, 8), f32] {\n" + before +
         "  %1 = transpose(%0, axes=[0, 2, 1, 3])\n  %2 = reshape(%1, shape=(1, 128, 64))\n"
         "  %3 = nn.dense(%2, @w: Tensor[(64, 8), f32], units=8, gemm=true)\n  return %3\n}";
}

std::string chain(int length) {
  std::string text = "  %v0 = exp(%x)\n";
  for (int i = 1; i < length; ++i)
    text += "  %v" + std::to_string(i) + " = exp(%v" + std::to_string(i - 1) + ")\n";
  return rows(text, "%v" + std::to_string(length - 1), kRows);
}

std::string squares() {
  std::string text = "  %v0 = exp(%x)\n";
  for (int i = 1; i <= 8; ++i) {
    const std::string v = "%v" + std::to_string(i - 1);
    text += "  %v" + std::to_string(i) + " = multiply(" + v + ", " + v + ")\n";
  }
  return rows(text, "%v8", kRows);
}

struct Case {
  FusionRule rule;
  std::string graph;
  std::string expected;  ///< one of the lines
};

std::string with_body(const std::string& before, const std::string& data) {
  return images(before + "  %f = fused(" + data + ") fn @inner(%a: " + kImage + ") -> " + kImage +
                    " {\n    %0 = exp(%a)\n    return %0\n  }\n  %g = nn.relu(%f)\n",
                "%g");
}

std::vector<Case> member_cases() {
  const std::string epilogue =
      images("  %0 = exp(%y)\n  %1 = " + conv("%x") + "\n  %2 = add(%1, %0)\n", "%2");
  const std::string chosen = rows("  %0 = exp(%x)\n  %1 = concatenate(%0, %x, axis=0)\n", "%1", kTwice);
  return {
      {FusionRule::kAnchor, epilogue, "nn.conv anchor"},
      {FusionRule::kFollowsAnchor, epilogue, "add follows_anchor nn.conv"},
      {FusionRule::kOperandOfFollower, epilogue, "exp operand_of_follower add"},
      {FusionRule::kSink, chain(2), "exp sink"},
      {FusionRule::kIntoArithmetic, chain(2), "exp into_arithmetic exp"},
      {FusionRule::kByItself, rows("  %0 = cumsum(%x, axis=1)\n", "%0", kRows), "cumsum by_itself"},
      {FusionRule::kReadIntoTiles, into_tiles("  %0 = exp(%x)\n"), "transpose read_into_tiles nn.dense"},
      {FusionRule::kViewBeforeTiles, into_tiles("  %0 = exp(%x)\n"), "reshape view_before_tiles nn.dense"},
      {FusionRule::kCopiedByReader, copying("  %0 = nn.relu(%x)\n", "%0"),
       "nn.relu copied_by_reader nn.conv"},
      {FusionRule::kIntoIndexMap,
       rows("  %0 = exp(%x)\n  %1 = transpose(%0, axes=[1, 0])\n", "%1", "Tensor[(8, 4), f32]"),
       "exp into_index_map transpose"},
      {FusionRule::kIntoChoice, chosen, "exp into_choice concatenate"},
      {FusionRule::kIntoReduction,
       rows("  %0 = multiply(%x, %x)\n  %1 = sum(%0, axes=[1], keepdims=true)\n", "%1",
            "Tensor[(4, 1), f32]"),
       "multiply into_reduction sum"},
  };
}

std::vector<Case> value_cases() {
  const std::string two = "(" + kRows + ", " + kRows + ")";
  const std::string top =
      rows("  %0 = exp(%x)\n  %1, %2 = topk(%0, axis=1, k=8)\n  %3 = tanh(%1)\n", "%3", kRows);
  const std::string branches =
      images("  %0 = " + conv("%x") + "\n  %1 = sigmoid(%0)\n  %2 = " + pool("%0") + "\n", "%1, %2",
             "(" + kImage + ", " + kImage + ")");
  const std::string both = rows(
      "  %0 = exp(%s)\n  %1 = multiply(%r, %0)\n  %2 = sum(%1, axes=[1], keepdims=true)\n"
      "  %3 = add(%2, %0)\n",
      "%3", "Tensor[(1, 1), f32]");
  return {
      {FusionRule::kReturned, rows("  %0 = exp(%x)\n  %1 = tanh(%0)\n", "%0, %1", two),
       "exp>tanh returned tanh"},
      {FusionRule::kReturned,
       images("  %0 = " + conv("%x") + "\n  %1 = nn.relu(%0)\n", "%0, %1",
              "(" + kImage + ", " + kImage + ")"),
       "nn.conv>nn.relu returned nn.relu"},
      {FusionRule::kView, rows("  %0 = reshape(%x, shape=(32))\n  %1 = exp(%0)\n", "%1", "Tensor[(32), f32]"),
       "reshape>exp view exp"},
      {FusionRule::kOpaque, rows("  %0 = cumsum(%x, axis=1)\n  %1 = exp(%0)\n", "%1", kRows),
       "cumsum>exp opaque exp"},
      {FusionRule::kSeveralResults, top, "topk>tanh several_results tanh"},
      {FusionRule::kHasBodies, with_body("", "%x"), "fused>nn.relu has_bodies nn.relu"},
      {FusionRule::kTooLarge, chain(50), "exp>exp too_large exp"},
      {FusionRule::kWrittenOutTooOften, squares(), "multiply>multiply written_out_too_often multiply"},
      {FusionRule::kReadBySeveral, rows("  %0 = exp(%x)\n  %1 = tanh(%0)\n  %2 = sqrt(%0)\n", "%1, %2", two),
       "exp>tanh read_by_several tanh"},
      {FusionRule::kReadersStayApart, branches, "nn.conv>sigmoid readers_stay_apart nn.max_pool"},
      {FusionRule::kOtherReader, both, "exp>add other_reader multiply"},
      {FusionRule::kReaderIsAnchor, branches, "nn.conv>nn.max_pool reader_is_anchor nn.max_pool"},
      {FusionRule::kReaderHasResults, top, "exp>topk reader_has_results topk"},
      {FusionRule::kBroadcast, both, "exp>multiply broadcast multiply"},
  };
}

std::vector<Case> reader_cases() {
  const std::string wide = "fn @main(%x: Tensor[(1, 4, 1, 1), f32], %y: " + kImage + ") -> " + kImage +
                           " {\n  %0 = " + conv("%x") +
                           "\n  %1 = sigmoid(%0)\n  %2 = multiply(%y, %1)\n  return %2\n}";
  return {
      {FusionRule::kReaderIsView,
       rows("  %0 = exp(%x)\n  %1 = reshape(%0, shape=(32))\n  %2 = tanh(%1)\n", "%2", "Tensor[(32), f32]"),
       "exp>reshape reader_is_view reshape"},
      {FusionRule::kReaderIsOpaque, rows("  %0 = exp(%x)\n  %1 = cumsum(%0, axis=1)\n", "%1", kRows),
       "exp>cumsum reader_is_opaque cumsum"},
      {FusionRule::kReaderHasBodies, with_body("  %c = " + conv("%x") + "\n", "%c"),
       "nn.conv>fused reader_has_bodies fused"},
      {FusionRule::kReaderMovesElements,
       images("  %0 = " + conv("%x") + "\n  %1 = transpose(%0, axes=[0, 1, 3, 2])\n", "%1"),
       "nn.conv>transpose reader_moves_elements transpose"},
      {FusionRule::kReaderIsTaken,
       images("  %0 = " + conv("%x") + "\n  %1 = " + conv("%y", "v") + "\n  %2 = add(%0, %1)\n", "%2"),
       "nn.conv>add reader_is_taken nn.conv"},
      {FusionRule::kReaderHasOtherShape, wide, "sigmoid>multiply reader_has_other_shape nn.conv"},
      {FusionRule::kReadAgainAndAgain, images("  %0 = exp(%x)\n  %1 = " + conv("%0") + "\n", "%1"),
       "exp>nn.conv read_again_and_again nn.conv"},
      {FusionRule::kWindowsOverlap, images("  %0 = exp(%x)\n  %1 = " + pool("%0") + "\n", "%1"),
       "exp>nn.max_pool windows_overlap nn.max_pool"},
      {FusionRule::kMovesElements,
       images("  %0 = transpose(%y, axes=[0, 1, 3, 2])\n  %1 = " + conv("%x") + "\n  %2 = add(%1, %0)\n",
              "%2"),
       "transpose>add moves_elements add"},
      {FusionRule::kReaderIsOperand, into_tiles("  %0 = exp(%x)\n"),
       "exp>transpose reader_is_operand transpose"},
      {FusionRule::kCompletesIndexMap,
       copying("  %0 = strided_slice(%x, begin=(0, 0, 0, 0), end=(1, 8, 8, 64), strides=[1, 1, 1, 1])\n"
               "  %1 = nn.relu(%0)\n",
               "%1"),
       "nn.relu>nn.conv completes_index_map nn.conv"},
      {FusionRule::kReaderChooses,
       rows("  %0 = add(%x, %r)\n  %1 = concatenate(%0, %x, axis=0)\n", "%1", kTwice),
       "add>concatenate reader_chooses concatenate"},
      {FusionRule::kReaderIsInsideChoice,
       rows("  %0 = tanh(%x)\n  %1 = exp(%0)\n  %2 = concatenate(%1, %x, axis=0)\n", "%2", kTwice),
       "tanh>exp reader_is_inside_choice exp"},
  };
}

std::vector<Case> all_cases() {
  std::vector<Case> all = member_cases();
  for (const auto& more : {value_cases(), reader_cases()}) all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(FusionReasons, EachRuleSaysThatItDecided) {
  for (const Case& example : all_cases()) {
    SCOPED_TRACE(example.graph);
    EXPECT_EQ(example.expected.find(name_of(example.rule)), example.expected.find(' ') + 1);
    EXPECT_THAT(reasons_of(example.graph), Contains(example.expected));
  }
}

TEST(FusionReasons, EveryRuleHasAGraph) {
  std::set<FusionRule> seen{FusionRule::kDisabled, FusionRule::kKeptApart};
  for (const Case& example : all_cases()) seen.insert(example.rule);
  EXPECT_EQ(seen.size(), static_cast<size_t>(FusionRule::kReaderIsInsideChoice) + 1);
}

TEST(FusionReasons, WithoutFusionThatIsTheReason) {
  EXPECT_THAT(reasons_of(chain(3), false), ElementsAre("exp by_itself", "exp by_itself", "exp by_itself",
                                                       "exp>exp disabled exp", "exp>exp disabled exp"));
}

TEST(FusionReasons, WhatADecisionKeepsApartSaysSo) {
  const Graph graph =
      parse_graph(images("  %0 = " + conv("%x") + "\n  %1 = nn.relu(%0)\n  %2 = exp(%1)\n", "%2"), table());
  const auto& nodes = graph.main.nodes();
  for (const size_t maker : {0, 1}) {
    const Separation edge{name_of(*nodes[maker]), name_of(*nodes[maker + 1])};
    FusionRecord record;
    find_fusion_groups(graph.main, true, &record, std::span(&edge, 1));
    const FusionReason& why = record.apart.at({nodes[maker], nodes[maker + 1]});
    EXPECT_EQ(why.rule, FusionRule::kKeptApart);
    EXPECT_EQ(to_string(why, op_def(*nodes[maker])),
              fmt::format("a decision keeps {} apart", nodes[maker + 1]->op->name));
  }
}

TEST(FusionReasons, ReadAsSentences) {
  const Graph graph = parse_graph(
      images("  %0 = exp(%x)\n  %1 = " + conv("%0") + "\n  %2 = nn.relu(%1)\n  %3 = " + pool("%2") + "\n",
             "%3"),
      table());
  FusionRecord record;
  find_fusion_groups(graph.main, true, &record);
  const auto& nodes = graph.main.nodes();
  const auto why = [&](size_t maker, size_t reader) {
    return to_string(record.apart.at({nodes[maker], nodes[reader]}), op_def(*nodes[maker]));
  };
  EXPECT_EQ(to_string(record.members.at(nodes[2]), op_def(*nodes[2])),
            "elementwise arithmetic after the anchor nn.conv, of its shape");
  EXPECT_EQ(why(0, 1), "nothing joins what nn.conv reads: it takes each value 36 times")
      << "nine taps for each of four channels";
  EXPECT_EQ(why(2, 3), "nn.max_pool starts a kernel of its own: a reduction after an anchor");
}

/// The report on the graph after fuse_ops: "exp -> nn.conv+nn.relu, through reshape: RULE", an edge a line.
std::vector<std::string> edges_of(const std::string& text) {
  Graph graph = parse_graph(text, table());
  FusionReport report;
  PassContext context;
  context.fusion = &report;
  fuse_ops(graph, context);
  verify(graph, table(), "fuse_ops");
  const auto ops_of = [&](size_t kernel) {
    std::string ops;
    for (const FusionReport::Member& member : report.kernels[kernel].members)
      ops += (ops.empty() ? "" : "+") + member.node->op->name;
    return ops;
  };
  size_t kernels = 0;
  for (const Node* node : graph.main.nodes()) {
    if (!op_def(*node).is_view) EXPECT_EQ(report.kernels.at(kernels++).node, node);
  }
  EXPECT_EQ(report.kernels.size(), kernels);
  std::vector<std::string> lines;
  for (const FusionReport::Edge& edge : report.edges) {
    std::string line = ops_of(edge.from) + " -> " + ops_of(edge.to);
    for (const OpDef* view : edge.views) line += ", through " + view->name;
    lines.push_back(line + ": " + std::string(name_of(edge.why.rule)));
  }
  return lines;
}

TEST(FusionReport, TellsOfEachEdgeBetweenKernelsOnce) {
  EXPECT_THAT(edges_of(images("  %0 = exp(%x)\n  %1 = " + conv("%0") +
                                  "\n  %2 = nn.relu(%1)\n  %3 = " + pool("%2") + "\n  %4 = add(%3, %2)\n",
                              "%4")),
              ElementsAre("exp -> nn.conv+nn.relu: read_again_and_again",
                          "nn.conv+nn.relu -> nn.max_pool+add: reader_is_anchor"));
}

TEST(FusionReport, FollowsViewsToTheKernelBehindThem) {
  EXPECT_THAT(
      edges_of(rows("  %0 = exp(%x)\n  %1 = reshape(%0, shape=(32))\n  %2 = reshape(%1, shape=(2, 16))\n"
                    "  %3 = tanh(%2)\n  %4 = reshape(%x, shape=(2, 16))\n  %5 = add(%3, %4)\n",
                    "%5", "Tensor[(2, 16), f32]")),
      ElementsAre("exp -> tanh+add, through reshape, through reshape: reader_is_view"));
}

}  // namespace
}  // namespace gantry
