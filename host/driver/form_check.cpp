#include "host/driver/form_check.h"

#include <fmt/ranges.h>

#include <optional>
#include <ranges>

#include "host/driver/compile.h"
#include "host/driver/network_decider.h"
#include "host/forms/form.h"
#include "host/machine/cpu_family.h"
#include "host/machine/cpu_features.h"
#include "host/ops/conv.h"
#include "host/ops/dense.h"
#include "host/ops/op.h"
#include "host/passes/fuse_ops.h"
#include "host/support/error.h"

namespace gantry {
namespace {

/// What the node's products are computed on, if it is tile registers.
std::optional<TileUnit> unit_of(const Node& node) {
  if (const auto* conv = node.match(nn::conv); conv && conv->form.on_tiles()) return conv->form.tile_unit;
  if (const auto* dense = node.match(nn::dense); dense && dense->form.on_tiles())
    return dense->form.tile_unit;
  return std::nullopt;
}

/// Rules find a product's unit by its elements: a target computes by the first that it has for them.
bool computes_by(const Target& target, TileUnit unit) {
  return !target.for_gpu() && tile_unit(target, geometry_of(unit).element) == unit;
}

/// The target without the features because of which it takes another unit: its name; empty if there is none.
std::string name_without_better_unit(const Target& target, TileUnit unit) {
  const CpuFamily& family = family_of(target);
  // Those that need others come later.
  for (const std::string& feature : std::views::reverse(target.features)) {
    Target without = target;
    without.features = remove_feature(family, target.features, feature);
    if (computes_by(without, unit)) return fmt::format("{}-{}", target.name, feature);
  }
  return "";
}

/// Why the target does not compute by a unit, and what to compile for instead.
std::string other_unit_text(const Target& target, TileUnit unit) {
  if (target.for_gpu() || tile_instruction(target, unit) == nullptr)
    return fmt::format("which {} has not: this text was made for another target; compile it for that",
                       target.name);
  const DType element = geometry_of(unit).element;
  const std::string without = name_without_better_unit(target, unit);
  return fmt::format("but {}, which has that too, multiplies {} by {} alone: compile it for {}", target.name,
                     name_of(element), name_of(*tile_unit(target, element)),
                     without.empty() ? "the target that this text was made for" : without);
}

std::string name_text(const Node& node) {
  return node.origin.empty() ? "%" + node.result()->name : fmt::format("{}", fmt::join(node.origin, ", "));
}

[[noreturn]] void refuse(const Node& node, const std::string& why) {
  const Decision& decision = *node.decision;
  user_error("{}{} of {} ({}) does not fit: {}", decision.place.empty() ? "" : decision.place + ": ",
             to_string(decision), name_text(node), node.op->name, why);
}

/// Why no pass will look at decisions in a function; none where one will.
using Unread = std::optional<std::string>;
constexpr const char* kInGroup =
    "the node is in a group that has been made a kernel already; decide in the text from before alter_layout "
    "(gantry ir MODEL --before alter_layout -o OUT.gir)";

/// No decision that no pass would ever read.
void expect_choice(const Node& node, const Unread& unread) {
  if (!node.decision) return;
  if (!forms::has_forms(*node.op))
    refuse(node, fmt::format("there is one way to compute {} alone; leave the decision out", node.op->name));
  if (!forms::is_made_by(node, *node.decision))
    refuse(node,
           "another decision has been made of the node already, as 'by (…)' says; change it in the text from before "
           "alter_layout (gantry ir MODEL --before alter_layout -o OUT.gir)");
  // Where alter_layout has run, or does not, nobody else would ask.
  if (const Misfit no = forms::unknown_form(*node.op, *node.decision)) refuse(node, *no);
  if (unread && forms::is_to_be_made(node, *node.decision)) refuse(node, *unread);
}

void expect_fit(const Function& function, const Target& target, const Unread& unread) {
  for (const Node* node : function.nodes()) {
    const Unread inside = node->is(op::fused) ? Unread(kInGroup) : unread;
    for (const auto& body : node->bodies) expect_fit(*body, target, inside);
    expect_choice(*node, unread);
    const std::optional<TileUnit> wanted = unit_of(*node);
    if (!wanted || computes_by(target, *wanted)) continue;
    user_error(
        "{}node {} ({}) is to be computed by {}, {}, or take the graph as it was read (gantry ir MODEL -o "
        "OUT.gir)",
        node->decision && !node->decision->place.empty() ? node->decision->place + ": " : "",
        name_text(*node), node->op->name, name_of(*wanted), other_unit_text(target, *wanted));
  }
}

}  // namespace

void expect_forms_of(const Graph& graph, const Target& target, bool deciding) {
  Unread unread;
  if (!deciding)
    unread = fmt::format("nothing is decided without {}, a pass of --opt {}", kDecidingPass, kMostOptLevel);
  expect_fit(graph.main, target, unread);
}

}  // namespace gantry
