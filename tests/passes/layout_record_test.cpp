// For whom the nodes that change layouts are there.
#include "host/passes/layout_record.h"

#include <algorithm>

#include "host/ops/conv.h"
#include "host/passes/alter_layout.h"
#include "host/passes/dilation_phases.h"
#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

LayoutPolicy blocks_of_eight() {
  LayoutPolicy policy;
  policy.conv_block = [](const ConvAttrs&, const TensorType&, const TensorType&) { return int64_t{8}; };
  policy.dense_block = [](const TensorType&, int64_t) { return int64_t{8}; };
  return policy;
}

/// The conversions that are left after the layout passes and fusion: "transpose: channels last, nn.conv of
/// A".
std::vector<std::string> conversions_of(const std::string& text, const LayoutPolicy& policy) {
  Graph graph = parse_graph(text, table());
  LayoutRecord record;
  PassContext context;
  context.layouts = &record;
  alter_layout(graph, policy, context);
  simplify_movement(graph, context);
  fold_constant(graph, context);
  dead_code(graph, context);
  fuse_ops(graph, context);
  verify(graph, table(), "fuse_ops");
  std::vector<std::string> lines;
  const auto look_at = [&](const Node& node) {
    const LayoutConversion* known = record.find(node);
    if (known == nullptr) return;
    std::string line = node.op->name + ": " + std::string(name_of(known->wish)) + ", ";
    line += known->reader == nullptr ? "an output" : known->reader->name;
    for (const std::string& origin : known->origin) line += " of " + origin;
    lines.push_back(line);
  };
  for (const Node* node : graph.main.nodes()) {
    look_at(*node);
    for (const auto& body : node->bodies) {
      for (const Node* inner : body->nodes()) look_at(*inner);
    }
  }
  return lines;
}

std::string conv(const std::string& input, const std::string& origin, int dilation = 1,
                 const std::string& weight = "@w: Tensor[(8, 8, 3, 3), f32]") {
  const std::string d = std::to_string(dilation);
  return "nn.conv(" + input + ", " + weight + ", channels=8, kernel=[3, 3], strides=[1, 1], dilations=[" + d +
         ", " + d + "], padding=(" + d + ", " + d + ", " + d + ", " + d + "))  // " + origin + "\n";
}
std::string images(const std::string& nodes, const std::string& parameters = "") {
  return "fn @main(%x: Tensor[(1, 8, 12, 12), f32]" + parameters + ") -> Tensor[(1, 8, 12, 12), f32] {\n" +
         nodes + "  return %y\n}\n";
}

TEST(LayoutRecord, SaysWhoWantsAnImageInAnotherOrder) {
  EXPECT_THAT(
      conversions_of(images("  %a = " + conv("%x", "A") + "  %y = nn.relu(%a)  // B\n"), blocks_of_eight()),
      ElementsAre("transpose: channels last, nn.conv of A", "transpose: channels first, an output"));
  EXPECT_THAT(conversions_of(images("  %a = " + conv("%x", "A") +
                                    "  %b = reshape(%a, shape=(1, 64, 18))  // B\n"
                                    "  %c = nn.softmax(%b, axis=2)  // C\n"
                                    "  %d = reshape(%c, shape=(1, 8, 12, 12))  // D\n  %y = " +
                                    conv("%d", "E", 1, "@w")),
                             blocks_of_eight()),
              ElementsAre("transpose: channels last, nn.conv of A", "transpose: channels first, reshape of B",
                          "transpose: channels last, nn.conv of E", "transpose: channels first, an output"));
}

TEST(LayoutRecord, FollowsAConversionIntoTheTranspositionThatItBecomesAPartOf) {
  EXPECT_THAT(
      conversions_of(images("  %a = " + conv("%x", "A") +
                            "  %b = transpose(%a, axes=[0, 1, 3, 2])  // B\n"
                            "  %y = exp(%b)  // C\n"),
                     blocks_of_eight()),
      ElementsAre("transpose: channels last, nn.conv of A", "transpose: channels first, transpose of B"));
}

TEST(LayoutRecord, TellsOfWeightsThatArePackedWhenTheProgramRuns) {
  LayoutPolicy policy = blocks_of_eight();
  policy.packs_data_weights = true;
  EXPECT_THAT(
      conversions_of(images("  %y = " + conv("%x", "A", 1, "%w"), ", %w: Tensor[(8, 8, 3, 3), f32]"), policy),
      testing::Contains("transpose: packed weight, nn.conv of A"));
}

TEST(LayoutRecord, TellsOfThePhasesOfADilation) {
  LayoutPolicy policy = blocks_of_eight();
  policy.conv_phases = [](const ConvAttrs&, const TensorType&, const TensorType&, const DilationPhases&) {
    return true;
  };
  const auto conversions = conversions_of(images("  %y = " + conv("%x", "A", 2)), policy);
  EXPECT_EQ(std::ranges::count(conversions, "transpose: phases of a dilation, nn.conv of A"), 2)
      << "into the phases and back";
}

TEST(LayoutRecord, LeavesOutConstantsAndTheModelsOwnTranspositions) {
  EXPECT_THAT(conversions_of("fn @main(%x: Tensor[(4, 8), f32]) -> Tensor[(8, 4), f32] {\n"
                             "  %a = nn.dense(%x, @w: Tensor[(8, 8), f32], units=8)  // A\n"
                             "  %y = transpose(%a, axes=[1, 0])  // B\n  return %y\n}\n",
                             blocks_of_eight()),
              IsEmpty());
}

}  // namespace
}  // namespace gantry
