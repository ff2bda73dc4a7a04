#include "host/tune/fused_edges.h"

#include <fmt/format.h>

#include <algorithm>

namespace gantry::tune {
namespace {

using Member = FusionReport::Member;

bool reads(const Node& reader, const Node& maker) {
  return std::ranges::any_of(
      reader.inputs, [&](const Value* input) { return input != nullptr && input->producer == &maker; });
}

FusedEdge apart(const Node& alone, const Node& anchor, bool anchor_reads) {
  const Separation edge = anchor_reads ? Separation{name_of(alone), name_of(anchor)}
                                       : Separation{name_of(anchor), name_of(alone)};
  return {fmt::format("{} apart from {}{}", alone.op->name, anchor.op->name,
                      anchor_reads ? ", which reads it" : ""),
          edge, anchor_reads};
}

}  // namespace

std::vector<FusedEdge> fused_edges(const FusionReport& report) {
  std::vector<FusedEdge> edges;
  for (const FusionReport::Kernel& kernel : report.kernels) {
    const auto anchor = std::ranges::find(kernel.members, FusionRule::kAnchor,
                                          [](const Member& member) { return member.why.rule; });
    if (anchor == kernel.members.end()) continue;
    bool followed = false;
    for (const Member& member : kernel.members) {
      if (member.why.rule == FusionRule::kCopiedByReader && reads(*anchor->node, *member.node))
        edges.push_back(apart(*member.node, *anchor->node, true));
      if (followed || member.why.rule != FusionRule::kFollowsAnchor || !reads(*member.node, *anchor->node))
        continue;
      edges.push_back(apart(*member.node, *anchor->node, false));
      followed = true;
    }
  }
  return edges;
}

std::optional<NumberedSeparation> numbered(const Function& function, const Separation& edge) {
  const auto& nodes = function.nodes();
  const auto number = [&](const auto& node) { return static_cast<int64_t>(node - nodes.begin()); };
  for (auto reader = nodes.begin(); reader != nodes.end(); ++reader) {
    for (const Value* input : (*reader)->inputs) {
      const Node* maker = input == nullptr ? nullptr : input->producer;
      if (maker != nullptr && edge.is_of(*maker, **reader))
        return NumberedSeparation{edge, number(std::ranges::find(nodes, maker)), number(reader)};
    }
  }
  return std::nullopt;
}

}  // namespace gantry::tune
