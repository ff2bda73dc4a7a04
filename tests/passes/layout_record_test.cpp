// For whom the nodes that change layouts are there.
#include "host/passes/layout_record.h"

#include <algorithm>

#include "host/codegen/find_target.h"
#include "host/ops/conv.h"
#include "host/passes/alter_layout.h"
#include "tests/forms/given_forms.h"
#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

GivenForms blocks_of_eight(const Decision& conv = {"direct", {{"block", 8}}}) {
  return {find_target("x86-64-v2"), [conv](const FormQuestion& question, const FormSet&) -> Decision {
            return question.node.is(nn::conv) ? conv : Decision{"packed", {{"block", 8}}};
          }};
}

/// The conversions that are left after the layout passes and fusion: "transpose: channels last, nn.conv of
/// A".
std::vector<std::string> conversions_of(const std::string& text, const FormSet& forms) {
  Graph graph = parse_graph(text, table());
  LayoutRecord record;
  PassContext context;
  context.layouts = &record;
  alter_layout(graph, forms, context);
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
  EXPECT_THAT(
      conversions_of(images("  %y = " + conv("%x", "A", 1, "%w"), ", %w: Tensor[(8, 8, 3, 3), f32]"), blocks_of_eight()),
      testing::Contains("transpose: packed weight, nn.conv of A"));
}

TEST(LayoutRecord, TellsOfThePhasesOfADilation) {
  const auto conversions = conversions_of(images("  %y = " + conv("%x", "A", 2)),
                                          blocks_of_eight({"direct", {{"block", 8}, {"phases", 1}}}));
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
