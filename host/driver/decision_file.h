// Decisions of a program's nodes as text, which people and tools read, change and give back.
//
//   # what was decided for resnet18.onnx
//   [x86-64-v3]
//   nn.conv {form=winograd4, block=16}  // /layer1/layer1.0/conv1/Conv
//   nn.dense {form=packed, block=32}  // /fc/Gemm
//
// What is decided for the network as a whole, and not for one of its nodes, stands behind "network":
//
//   network {form=combined}
//   network {form=apart} nn.conv nn.relu  // stem.conv -> stem.relu
//
// The first: products of the same data are one (host/passes/combine_parallel.h); separate says that they are
// not. The other: the second node, which reads what the first one makes, is in another kernel (Separation).
//
// A target is any name of it that find_target() knows.
// A line is an op, a decision (host/graph/decision.h) and, as in graph text, the nodes of the model that the
// node comes from. What stands under a target in brackets is for that one, what stands above the first for
// all.
// '#' begins a comment.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/passes/node_decision.h"

namespace gantry {

/// One line of it.
std::string decision_line(const NodeDecision& decision);
/// The network's line where products are combined, which they are not where there is none.
inline constexpr std::string_view kCombinedLine = "network {form=combined}";
/// The network's lines; none where nothing is decided for it.
std::vector<std::string> network_lines(const NetworkDecision& network);
/// The lines under a target.
std::string decisions_text(const std::string& target, const std::vector<NodeDecision>& decisions,
                           const NetworkDecision& network = {});

class DecisionFile {
 public:
  /// User errors name `file`, the line and what is wrong there.
  static DecisionFile parse(std::string_view text, const std::string& file);
  /// As parse() was given it.
  const std::string& name() const { return name_; }
  /// Whether it says anything for a target of that name.
  bool has_lines_for(const std::string& name) const;
  /// Those for a target of that name.
  GivenDecisions for_target(const std::string& name) const;
  /// Whether a target of that name is to combine products of the same data: what its own line says, else that
  /// for all; none: no line does.
  std::optional<bool> combines_products(const std::string& name) const;
  /// With where each stands, for messages.
  struct PlacedSeparation {
    Separation edge;
    std::string place;
  };
  /// What is to be kept apart for a target of that name.
  std::vector<PlacedSeparation> apart(const std::string& name) const;

 private:
  /// Of the network.
  struct NetworkEntry {
    std::string target;  ///< empty: all
    std::string place;
    std::optional<Separation> apart;
    bool combined = false;  ///< where it keeps nothing apart
  };
  struct Entry {
    std::string target;  ///< empty: all
    GivenDecisions::Line line;
  };
  static NetworkEntry parse_of_network(std::string_view text);
  /// A user error where a line before it says for the same target whether the network is combined.
  void add(NetworkEntry entry);

  std::string name_;
  std::vector<Entry> entries_;
  std::vector<NetworkEntry> of_network_;
};

}  // namespace gantry
