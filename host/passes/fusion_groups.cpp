// Grouping keeps one invariant: only the last node of a group, its sink, has users outside. So no path leaves
// a group and comes back, and replacing the group by one node at its sink's place keeps the order valid.
#include "host/passes/fusion_groups.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include "host/ops/bitcast.h"
#include "host/ops/op.h"
#include "host/passes/fusion_reasons.h"

namespace gantry {
namespace {

constexpr size_t kMaxGroupSize = 40;
// How often bodies are written out when inner nodes are inlined into all of their users: x * f(x) doubles x.
constexpr int64_t kMaxExpansion = 64;

bool is_pointwise(const Node& node) {
  return op_def(node).fusion == FusionClass::kElementwise || op_def(node).fusion == FusionClass::kBroadcast;
}
bool is_injective(const Node& node) {
  return op_def(node).fusion == FusionClass::kInjective;
}

bool is_reduction(const Node& node) {
  return op_def(node).fusion == FusionClass::kReduction;
}
/// Others may follow it in its kernel.
bool is_anchor(const Node& node) {
  return op_def(node).fusion == FusionClass::kOutElementwiseFusable || is_reduction(node);
}

bool may_join(const Node& node) {
  return !op_def(node).is_view && node.results.size() == 1 && node.bodies.empty() &&
         (is_pointwise(node) || is_injective(node));
}

Dim count_of(const Value* value) {
  return element_count(value->type.shape);
}

size_t present_inputs(const Node& node) {
  return static_cast<size_t>(
      std::count_if(node.inputs.begin(), node.inputs.end(), [](const Value* v) { return v != nullptr; }));
}

/// An index map of several inputs.
bool picks_among_inputs(const Node& node) {
  return is_injective(node) && present_inputs(node) > 1;
}

// An index map that yields no more elements than it is given reads each about once; pads, tiles and the like
// would compute what feeds them again and again.
bool reads_once(const Node& node) {
  Dim given = 0;
  for (const Value* input : node.inputs) {
    if (input != nullptr) given = given + count_of(input);
  }
  const auto spare = (given - count_of(node.result())).lower_bound();
  return spare && *spare >= 0;
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

  std::vector<FusionGroup> run() {
    const auto& nodes = function_.nodes();
    // Of two anchors that meet in one addition the later one takes it: it runs right before.
    for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
      if (is_anchor(**it)) grow_from_anchor(*it);
    }
    for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
      const bool joins = group_of_.count(*it) != 0 ||
                         (!stays_apart(**it) && (join_operand(*it) || join_copied(*it) || join_users(*it)));
      if (!joins) {
        open_group(*it, nullptr);
        joined(**it, joins_nothing(**it) ? FusionRule::kByItself : FusionRule::kSink);
      }
    }
    std::vector<FusionGroup> result;
    for (Group& group : groups_) {
      sort_by_position(group.members);
      result.push_back({std::move(group.members)});
    }
    std::sort(result.begin(), result.end(), [&](const FusionGroup& a, const FusionGroup& b) {
      return position_.at(a.members.back()) < position_.at(b.members.back());
    });
    return result;
  }

 private:
  struct Group {
    std::vector<Node*> members;
    Node* anchor = nullptr;  ///< of class out_elementwise_fusable or reduction
    std::set<const Node*> followers;
  };

  void sort_by_position(std::vector<Node*>& nodes) const {
    std::sort(nodes.begin(), nodes.end(),
              [&](Node* a, Node* b) { return position_.at(a) < position_.at(b); });
  }

  const std::vector<Node*>& users_of(const Node& node) const {
    static const std::vector<Node*> kNone;
    const auto found = users_.find(node.result());
    return found == users_.end() ? kNone : found->second;
  }

  size_t open_group(Node* node, Node* anchor) {
    groups_.push_back({{node}, anchor});
    group_of_[node] = groups_.size() - 1;
    return groups_.size() - 1;
  }

  // Sum over the members of how often each is written out.
  int64_t expansion(std::vector<Node*> members) const {
    sort_by_position(members);
    std::unordered_map<const Node*, int64_t> copies;
    copies[members.back()] = 1;
    int64_t total = 0;
    for (auto it = members.rbegin(); it != members.rend(); ++it) {
      const int64_t mine = copies[*it];
      total += mine;
      if (total > kMaxExpansion) break;
      for (const Value* input : (*it)->inputs) {
        if (input != nullptr && input->producer != nullptr) copies[input->producer] += mine;
      }
    }
    return total;
  }

  // --- what is put down of each decision

  void joined(const Node& node, FusionRule rule, const Node* other = nullptr) {
    if (record_ != nullptr) record_->put_member(node, rule, other);
  }
  void apart(const Node& maker, const Node& reader, FusionRule rule, const Node* other = nullptr) {
    if (record_ != nullptr) record_->put_apart(maker, reader, rule, other);
  }

  // Keeps the node apart from all that read it. False, for those who say whether it joined.
  bool refuse(const Node& maker, FusionRule rule) {
    if (record_ == nullptr) return false;
    for (const Value* result : maker.results) {
      const auto found = users_.find(result);
      if (found == users_.end()) continue;
      for (const Node* reader : found->second) apart(maker, *reader, rule);
    }
    return false;
  }

  // Why no rule looks at what reads the node's results; nothing where some do.
  static std::optional<FusionRule> joins_nothing(const Node& node) {
    if (op_def(node).is_view) return FusionRule::kView;
    if (node.results.size() != 1) return FusionRule::kSeveralResults;
    if (!node.bodies.empty()) return FusionRule::kHasBodies;
    if (!may_join(node) && !is_anchor(node)) return FusionRule::kOpaque;
    return std::nullopt;
  }

  // --- what a decision keeps apart

  bool is_apart(const Node& maker, const Node& reader) const {
    return std::ranges::any_of(apart_, [&](const Separation& edge) { return edge.is_of(maker, reader); });
  }

  // A node shares a kernel with all of its users, or with none.
  bool stays_apart(const Node& node) {
    if (apart_.empty() || node.results.size() != 1) return false;
    const auto& users = users_of(node);
    const bool stays = std::ranges::any_of(users, [&](const Node* user) { return is_apart(node, *user); });
    if (stays) refuse(node, FusionRule::kKeptApart);
    return stays;
  }

  // Whether the node reads a member that it is to stay apart from.
  bool is_apart_from(const Node& node, const std::vector<Node*>& members) const {
    return !apart_.empty() && std::ranges::any_of(members, [&](const Node* member) {
      return std::ranges::find(node.inputs, member->result()) != node.inputs.end() && is_apart(*member, node);
    });
  }

  // --- first: what follows a convolution or matrix product

  // Why not; nothing where it may.
  std::optional<FusionRule> cannot_follow(const Node& node, const Node& anchor) const {
    if (op_def(node).is_view) return FusionRule::kReaderIsView;
    if (node.results.size() != 1) return FusionRule::kReaderHasResults;
    if (!node.bodies.empty()) return FusionRule::kReaderHasBodies;
    if (is_anchor(node)) return FusionRule::kReaderIsAnchor;
    if (is_injective(node)) return FusionRule::kReaderMovesElements;
    if (!is_pointwise(node)) return FusionRule::kReaderIsOpaque;
    if (group_of_.count(&node) != 0) return FusionRule::kReaderIsTaken;
    if (!(node.result()->type.shape == anchor.result()->type.shape)) return FusionRule::kReaderHasOtherShape;
    return std::nullopt;
  }

  // What the rule is about, beside the reader.
  const Node* subject_of(FusionRule rule, const Node& reader, const Node& anchor) const {
    if (rule == FusionRule::kReaderIsTaken) return groups_[group_of_.at(&reader)].anchor;
    return rule == FusionRule::kReaderHasOtherShape ? &anchor : &reader;
  }

  // Why what reads the group's last node stays outside. Growth `tried` these nodes; it ended at `stop` for
  // that reason, or, without it, everywhere.
  void put_down_end(const Group& group, const std::vector<Node*>& tried, const Node* stop, FusionRule why) {
    if (record_ == nullptr) return;
    const Node &last = *group.members.back(), &anchor = *group.anchor;
    for (const Node* reader : users_of(last)) {
      const bool passed = std::find(tried.begin(), tried.end(), reader) != tried.end();
      if (outputs_.count(last.result()) != 0) {
        apart(last, *reader, FusionRule::kReturned);
      } else if (stop == nullptr) {
        apart(last, *reader, why);
      } else if (passed) {
        apart(last, *reader, FusionRule::kReadersStayApart, stop);
      } else if (const auto rule = reader == stop ? why : cannot_follow(*reader, anchor)) {
        apart(last, *reader, *rule, subject_of(*rule, *reader, anchor));
      } else {
        apart(last, *reader, FusionRule::kReadBySeveral);
      }
    }
  }

  // The user of a member that comes first in the order and is not a member.
  Node* next_outside_user(const std::vector<Node*>& members) const {
    Node* next = nullptr;
    for (const Node* member : members) {
      for (Node* user : users_of(*member)) {
        if (std::find(members.begin(), members.end(), user) != members.end()) continue;
        if (next == nullptr || position_.at(user) < position_.at(next)) next = user;
      }
    }
    return next;
  }

  // Nothing but `sink` is seen outside.
  bool is_closed(const std::vector<Node*>& members, const Node* sink) const {
    for (const Node* member : members) {
      if (member == sink) continue;
      if (outputs_.count(member->result()) != 0) return false;
      for (const Node* user : users_of(*member)) {
        if (std::find(members.begin(), members.end(), user) == members.end()) return false;
      }
    }
    return true;
  }

  // Adds users in order and keeps the last closed state: each is a step to the sink's post-dominator.
  void grow_from_anchor(Node* anchor) {
    const size_t group = open_group(anchor, anchor);
    const auto alone = joins_nothing(*anchor);
    joined(*anchor, alone ? FusionRule::kByItself : FusionRule::kAnchor);
    if (alone) {
      refuse(*anchor, *alone);
      return;
    }
    std::vector<Node*> members{anchor};
    FusionRule end = FusionRule::kTooLarge;
    Node* next = nullptr;
    while (members.size() < kMaxGroupSize) {
      next = next_outside_user(members);
      auto why_not = next == nullptr ? FusionRule::kReturned : cannot_follow(*next, *anchor);
      if (!why_not && is_apart_from(*next, members)) why_not = FusionRule::kKeptApart;
      if (why_not) {
        end = *why_not;
        break;
      }
      members.push_back(next);
      if (!is_closed(members, next)) continue;
      if (expansion(members) > kMaxExpansion) {
        end = FusionRule::kWrittenOutTooOften;
        break;
      }
      groups_[group].members = members;
    }
    const bool stopped = std::find(members.begin(), members.end(), next) == members.end();
    put_down_end(groups_[group], members, stopped ? next : nullptr, end);
    for (Node* member : groups_[group].members) {
      group_of_[member] = group;
      if (member == anchor) continue;
      groups_[group].followers.insert(member);
      joined(*member, FusionRule::kFollowsAnchor, anchor);
    }
  }

  // --- then: index maps whose results a kernel copies into tiles join it

  static bool maps_indices(const Node& node) {
    return is_injective(node) && present_inputs(node) == 1 && node.results.size() == 1 && node.bodies.empty();
  }

  bool is_staged(const Node& node, const Node& user) const {
    if (operand_maps_.count(&user) != 0) return true;
    if (!op_def(user).stages_input) return false;
    for (size_t i = 0; i < user.inputs.size(); ++i) {
      if (user.inputs[i] == node.result() && !op_def(user).stages_input(user, i)) return false;
    }
    return true;
  }

  // The group that all users of the node are in, if all of them stage it.
  std::optional<size_t> staging_group(const Node& node) const {
    std::optional<size_t> group;
    if (outputs_.count(node.result()) != 0 || !maps_indices(node)) return std::nullopt;
    for (const Node* user : users_of(node)) {
      const auto found = group_of_.find(user);
      if (found == group_of_.end() || !is_staged(node, *user)) return std::nullopt;
      if (group && *group != found->second) return std::nullopt;
      group = found->second;
    }
    return group;
  }

  bool join_operand(Node* node) {
    const auto group = staging_group(*node);
    if (!group) return false;
    if (groups_[*group].members.size() >= kMaxGroupSize) return refuse(*node, FusionRule::kTooLarge);
    if (op_def(*node).is_view) {
      // By itself a view costs nothing; it joins to connect a map of indices behind it.
      const Node* source = node->inputs[0]->producer;
      if (!views_elements(*node) || source == nullptr || !maps_indices(*source) ||
          users_of(*source).size() != 1 || outputs_.count(source->result()) != 0)
        return refuse(*node, FusionRule::kView);
    }
    joined(*node, op_def(*node).is_view ? FusionRule::kViewBeforeTiles : FusionRule::kReadIntoTiles,
           groups_[*group].anchor);
    groups_[*group].members.push_back(node);
    group_of_[node] = *group;
    operand_maps_.insert(node);
    return true;
  }

  // --- arithmetic whose results a kernel copies before it computes joins it

  bool is_copied(const Node& node, const Node& user) const {
    if (operand_arithmetic_.count(&user) != 0) return count_of(node.result()) == count_of(user.result());
    if (!op_def(user).copies_input) return false;
    for (size_t i = 0; i < user.inputs.size(); ++i) {
      if (user.inputs[i] == node.result() && !op_def(user).copies_input(user, i)) return false;
    }
    return true;
  }

  // What a kernel in front could take in its stead leaves nothing behind if it does.
  bool follows_index_map(const Node& node) const {
    for (const Value* input : node.inputs) {
      const Node* source = input == nullptr ? nullptr : input->producer;
      if (source == nullptr || !may_join(*source) || users_of(*source).size() != 1 ||
          outputs_.count(input) != 0 || count_of(input) != count_of(node.result()))
        continue;
      if (is_injective(*source) || follows_index_map(*source)) return true;
    }
    return false;
  }

  bool join_copied(Node* node) {
    if (!may_join(*node) || !is_pointwise(*node) || outputs_.count(node->result()) != 0) return false;
    std::optional<size_t> group;
    for (const Node* user : users_of(*node)) {
      const auto found = group_of_.find(user);
      if (found == group_of_.end() || !is_copied(*node, *user)) return false;
      if (group && *group != found->second) return false;
      group = found->second;
    }
    if (!group) return false;
    if (groups_[*group].members.size() >= kMaxGroupSize) return refuse(*node, FusionRule::kTooLarge);
    if (follows_index_map(*node)) return refuse(*node, FusionRule::kCompletesIndexMap);
    groups_[*group].members.push_back(node);
    if (expansion(groups_[*group].members) > kMaxExpansion) {
      groups_[*group].members.pop_back();
      return refuse(*node, FusionRule::kWrittenOutTooOften);
    }
    joined(*node, FusionRule::kCopiedByReader, groups_[*group].anchor);
    group_of_[node] = *group;
    operand_arithmetic_.insert(node);
    return true;
  }

  // --- and every other node joins the group of all its users, if that is one

  static Verdict only_if(bool holds, FusionRule joins, FusionRule otherwise) {
    return {holds, holds ? joins : otherwise};
  }

  // Of an operand of what follows an anchor.
  Verdict verdict_behind_anchor(const Node& producer, const Node& user, const Group& group) const {
    if (&user == group.anchor) return {false, FusionRule::kReadAgainAndAgain};
    if (operand_maps_.count(&user) != 0 || operand_arithmetic_.count(&user) != 0)
      return {false, FusionRule::kReaderIsOperand};
    if (!is_pointwise(producer) || !is_pointwise(user)) return {false, FusionRule::kMovesElements};
    return only_if(count_of(producer.result()) == count_of(user.result()), FusionRule::kOperandOfFollower,
                   FusionRule::kBroadcast);
  }

  Verdict verdict_in_group(const Node& producer, const Node& user, const Group& group) const {
    const bool before_reduction =
        group.anchor == nullptr || (is_reduction(*group.anchor) && group.followers.count(&user) == 0);
    if (!before_reduction) return verdict_behind_anchor(producer, user, group);
    const bool inside_choice = feeds_choice_.count(&user) != 0;
    switch (op_def(user).fusion) {
      case FusionClass::kElementwise:
      case FusionClass::kBroadcast:
        if (inside_choice) return {false, FusionRule::kReaderIsInsideChoice};
        return only_if(count_of(producer.result()) == count_of(user.result()), FusionRule::kIntoArithmetic,
                       FusionRule::kBroadcast);
      case FusionClass::kInjective:
        // An op that picks among several inputs evaluates the choice for every element, so only a step of
        // arithmetic goes inside.
        if (picks_among_inputs(user) && op_def(producer).fusion != FusionClass::kElementwise)
          return {false, FusionRule::kReaderChooses};
        if (inside_choice) return {false, FusionRule::kReaderIsInsideChoice};
        return only_if(reads_once(user),
                       picks_among_inputs(user) ? FusionRule::kIntoChoice : FusionRule::kIntoIndexMap,
                       FusionRule::kBroadcast);
      case FusionClass::kReduction:
        // Windows overlap: a pooling would compute its input several times.
        return only_if(op_def(user).layout != LayoutBehaviour::kChannelAware, FusionRule::kIntoReduction,
                       FusionRule::kWindowsOverlap);
      default:
        return {false, FusionRule::kReaderIsOpaque};
    }
  }

  Verdict verdict(const Node& producer, const Node& user) const {
    if (op_def(user).is_view) return {false, FusionRule::kReaderIsView};
    if (user.results.size() != 1) return {false, FusionRule::kReaderHasResults};
    return verdict_in_group(producer, user, groups_[group_of_.at(&user)]);
  }

  // The rule by which all of its users take the node, which are in one group; nothing if some do not, with
  // the reason of each put down.
  std::optional<FusionRule> rule_of_users(const Node& node, const std::vector<Node*>& users) {
    const size_t group = group_of_.at(users.front());
    bool together = true;
    const Node* refuser = nullptr;
    std::vector<Verdict> verdicts;
    for (const Node* user : users) {
      together = together && group_of_.at(user) == group;
      verdicts.push_back(verdict(node, *user));
      if (!verdicts.back().joins && refuser == nullptr) refuser = user;
    }
    if (together && refuser == nullptr) return verdicts.front().rule;
    for (size_t i = 0; i < users.size(); ++i) {
      if (!verdicts[i].joins) {
        apart(node, *users[i], verdicts[i].rule);
      } else if (!together) {
        apart(node, *users[i], FusionRule::kReadBySeveral);
      } else {
        apart(node, *users[i], FusionRule::kOtherReader, refuser);
      }
    }
    return std::nullopt;
  }

  bool join_users(Node* node) {
    if (const auto alone = joins_nothing(*node)) return refuse(*node, *alone);
    const std::vector<Node*>& users = users_of(*node);
    if (users.empty()) return false;
    if (outputs_.count(node->result()) != 0) return refuse(*node, FusionRule::kReturned);
    const auto rule = rule_of_users(*node, users);
    if (!rule) return false;
    const size_t group_index = group_of_.at(users.front());
    Group& group = groups_[group_index];
    if (group.members.size() >= kMaxGroupSize) return refuse(*node, FusionRule::kTooLarge);
    group.members.push_back(node);
    if (expansion(group.members) > kMaxExpansion) {
      group.members.pop_back();
      return refuse(*node, FusionRule::kWrittenOutTooOften);
    }
    joined(*node, *rule, users.front());
    group_of_[node] = group_index;
    if (std::ranges::any_of(users, [](const Node* user) { return picks_among_inputs(*user); }))
      feeds_choice_.insert(node);
    return true;
  }

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

}  // namespace

std::vector<FusionGroup> find_fusion_groups(const Function& function, bool enable, FusionRecord* record,
                                            std::span<const Separation> apart) {
  if (enable) return Grouper(function, record, apart).run();
  std::vector<FusionGroup> groups;
  for (Node* node : function.nodes()) groups.push_back({{node}});
  if (record == nullptr) return groups;
  for (const Node* node : function.nodes()) {
    record->put_member(*node, FusionRule::kByItself);
    for (const Value* input : node->inputs) {
      if (input != nullptr && input->producer != nullptr)
        record->put_apart(*input->producer, *node, FusionRule::kDisabled);
    }
  }
  return groups;
}

}  // namespace gantry
