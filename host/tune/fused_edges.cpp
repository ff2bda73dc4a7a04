#include "host/tune/fused_edges.h"

#include <fmt/format.h>

#include <algorithm>

namespace gantry::tune {
namespace {

using Member = FusionReport::Member;

/// The reader's data are the maker's result, and they are of different nodes of the model: a bias is no more
/// by itself than its product.
bool may_be_apart(const Node& maker, const Node& reader) {
  return reads(reader, maker) && maker.origin != reader.origin;
}

std::string what_is_apart(const Node& alone, const Node& other, bool is_copied) {
  return fmt::format("{} apart from {}{}", alone.op->name, other.op->name,
                     is_copied ? ", which reads it" : "");
}

/// What of a kernel with that anchor may be apart.
void add_edges(const std::vector<Member>& members, const Node& anchor, std::vector<FusedEdge>& edges) {
  for (const Member& reader : members) {
    for (const Member& maker : members) {
      const bool is_copied = maker.why.rule == FusionRule::kCopiedByReader && reader.node == &anchor;
      const bool follows = reader.why.rule == FusionRule::kFollowsAnchor &&
                           (maker.node == &anchor || maker.why.rule == FusionRule::kFollowsAnchor);
      if ((!is_copied && !follows) || !may_be_apart(*maker.node, *reader.node)) continue;
      const Node &alone = is_copied ? *maker.node : *reader.node,
                 &other = is_copied ? *reader.node : *maker.node;
      edges.push_back({what_is_apart(alone, other, is_copied),
                       {name_of(*maker.node), name_of(*reader.node)},
                       name_of(anchor)});
    }
  }
}

}  // namespace

std::vector<FusedEdge> fused_edges(const FusionReport& report) {
  std::vector<FusedEdge> edges;
  for (const FusionReport::Kernel& kernel : report.kernels) {
    const auto anchor = std::ranges::find(kernel.members, FusionRule::kAnchor,
                                          [](const Member& member) { return member.why.rule; });
    if (anchor != kernel.members.end()) add_edges(kernel.members, *anchor->node, edges);
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
