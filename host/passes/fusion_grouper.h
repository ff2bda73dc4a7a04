// Who of the nodes goes into which group: the rules of find_fusion_groups(), a step a file.
//
// Grouping keeps one invariant: only the last node of a group, its sink, has users outside. So no path leaves
// a group and comes back, and replacing the group by one node at its sink's place keeps the order valid.
#pragma once

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "host/ops/op.h"
#include "host/passes/fusion_groups.h"
#include "host/passes/fusion_reasons.h"

namespace gantry::fusion {

inline constexpr size_t kMaxGroupSize = 40;
// How often bodies are written out when inner nodes are inlined into all of their users: x * f(x) doubles x.
inline constexpr int64_t kMaxExpansion = 64;

inline bool is_pointwise(const Node& node) {
  return op_def(node).fusion == FusionClass::kElementwise || op_def(node).fusion == FusionClass::kBroadcast;
}
inline bool is_injective(const Node& node) {
  return op_def(node).fusion == FusionClass::kInjective;
}

inline bool is_reduction(const Node& node) {
  return op_def(node).fusion == FusionClass::kReduction;
}
/// Others may follow it in its kernel.
inline bool is_anchor(const Node& node) {
  return op_def(node).fusion == FusionClass::kOutElementwiseFusable || is_reduction(node);
}

inline bool may_join(const Node& node) {
  return !op_def(node).is_view && node.results.size() == 1 && node.bodies.empty() &&
         (is_pointwise(node) || is_injective(node));
}

inline Dim count_of(const Value* value) {
  return element_count(value->type.shape);
}

inline size_t present_inputs(const Node& node) {
  return static_cast<size_t>(
      std::count_if(node.inputs.begin(), node.inputs.end(), [](const Value* v) { return v != nullptr; }));
}

/// An index map of several inputs.
inline bool picks_among_inputs(const Node& node) {
  return is_injective(node) && present_inputs(node) > 1;
}

/// What a rule says of an edge.
struct Verdict {
  bool joins = false;
  FusionRule rule{};
};

class Grouper {
 public:
  /// `record`: where decisions are put down; null: nobody asks.
  Grouper(const Function& function, FusionRecord* record, std::span<const Separation> apart)
      : function_(function), record_(record), apart_(apart) {
    for (const auto& [value, users] : function.users()) users_[value] = users;
    outputs_.insert(function.outputs.begin(), function.outputs.end());
    for (size_t i = 0; i < function.nodes().size(); ++i) position_[function.nodes()[i]] = i;
  }

  std::vector<FusionGroup> run();

 private:
  struct Group {
    std::vector<Node*> members;
    Node* anchor = nullptr;  ///< of class out_elementwise_fusable or reduction
    std::set<const Node*> followers;
  };

  void sort_by_position(std::vector<Node*>& nodes) const;

  const std::vector<Node*>& users_of(const Node& node) const;

  size_t open_group(Node* node, Node* anchor);

  /// Sum over the members of how often each is written out.
  int64_t expansion(std::vector<Node*> members) const;

  // --- what is put down of each decision

  void joined(const Node& node, FusionRule rule, const Node* other = nullptr);
  void apart(const Node& maker, const Node& reader, FusionRule rule, const Node* other = nullptr);

  /// Keeps the node apart from all that read it. False, for those who say whether it joined.
  bool refuse(const Node& maker, FusionRule rule);

  /// Why no rule looks at what reads the node's results; nothing where some do.
  static std::optional<FusionRule> joins_nothing(const Node& node);

  // --- what a decision keeps apart

  bool is_apart(const Node& maker, const Node& reader) const;

  /// A node shares a kernel with all of its users, or with none.
  bool stays_apart(const Node& node);

  /// Whether the node reads a member that it is to stay apart from.
  bool is_apart_from(const Node& node, const std::vector<Node*>& members) const;

  // --- first: what follows a convolution or matrix product

  /// Why not; nothing where it may.
  std::optional<FusionRule> cannot_follow(const Node& node, const Node& anchor) const;

  /// What the rule is about, beside the reader.
  const Node* subject_of(FusionRule rule, const Node& reader, const Node& anchor) const;

  /// Why what reads the group's last node stays outside. Growth `tried` these nodes; it ended at `stop` for
  /// that reason, or, without it, everywhere.
  void put_down_end(const Group& group, const std::vector<Node*>& tried, const Node* stop, FusionRule why);

  /// The user of a member that comes first in the order and is not a member.
  Node* next_outside_user(const std::vector<Node*>& members) const;

  /// Nothing but `sink` is seen outside.
  bool is_closed(const std::vector<Node*>& members, const Node* sink) const;

  /// Adds users in order and keeps the last closed state: each is a step to the sink's post-dominator.
  void grow_from_anchor(Node* anchor);

  // --- then: index maps whose results a kernel copies into tiles join it

  static bool maps_indices(const Node& node);

  bool is_staged(const Node& node, const Node& user) const;

  /// The group that all users of the node are in, if all of them stage it.
  std::optional<size_t> staging_group(const Node& node) const;

  bool join_operand(Node* node);

  // --- arithmetic whose results a kernel copies before it computes joins it

  bool is_copied(const Node& node, const Node& user) const;

  /// What a kernel in front could take in its stead leaves nothing behind if it does.
  bool follows_index_map(const Node& node) const;

  bool join_copied(Node* node);

  // --- and every other node joins the group of all its users, if that is one

  static Verdict only_if(bool holds, FusionRule joins, FusionRule otherwise);

  /// Of an operand of what follows an anchor.
  Verdict verdict_behind_anchor(const Node& producer, const Node& user, const Group& group) const;

  Verdict verdict_in_group(const Node& producer, const Node& user, const Group& group) const;

  Verdict verdict(const Node& producer, const Node& user) const;

  /// The rule by which all of its users take the node, which are in one group; nothing if some do not, with
  /// the reason of each put down.
  std::optional<FusionRule> rule_of_users(const Node& node, const std::vector<Node*>& users);

  bool join_users(Node* node);

  const Function& function_;
  FusionRecord* record_;
  std::span<const Separation> apart_;
  std::unordered_map<const Value*, std::vector<Node*>> users_;
  std::set<const Value*> outputs_;
  std::unordered_map<const Node*, size_t> position_;
  std::unordered_map<const Node*, size_t> group_of_;
  std::vector<Group> groups_;
  /// Members that only map the indices of what an anchor copies into tiles.
  std::set<const Node*> operand_maps_;
  /// Members that compute what an anchor copies before it computes.
  std::set<const Node*> operand_arithmetic_;
  /// Members that feed an op with a choice among its inputs.
  std::set<const Node*> feeds_choice_;
};

}  // namespace gantry::fusion
