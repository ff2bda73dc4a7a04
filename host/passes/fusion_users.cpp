// And every other node joins the group of all its users, if that is one.
#include "host/passes/fusion_grouper.h"

namespace gantry::fusion {
namespace {

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

}  // namespace

Verdict Grouper::only_if(bool holds, FusionRule joins, FusionRule otherwise) {
  return {holds, holds ? joins : otherwise};
}

Verdict Grouper::verdict_behind_anchor(const Node& producer, const Node& user, const Group& group) const {
  if (&user == group.anchor) return {false, FusionRule::kReadAgainAndAgain};
  if (operand_maps_.count(&user) != 0 || operand_arithmetic_.count(&user) != 0)
    return {false, FusionRule::kReaderIsOperand};
  if (!is_pointwise(producer) || !is_pointwise(user)) return {false, FusionRule::kMovesElements};
  return only_if(count_of(producer.result()) == count_of(user.result()), FusionRule::kOperandOfFollower,
                 FusionRule::kBroadcast);
}

Verdict Grouper::verdict_in_group(const Node& producer, const Node& user, const Group& group) const {
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

Verdict Grouper::verdict(const Node& producer, const Node& user) const {
  if (op_def(user).is_view) return {false, FusionRule::kReaderIsView};
  if (user.results.size() != 1) return {false, FusionRule::kReaderHasResults};
  return verdict_in_group(producer, user, groups_[group_of_.at(&user)]);
}

std::optional<FusionRule> Grouper::rule_of_users(const Node& node, const std::vector<Node*>& users) {
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

bool Grouper::join_users(Node* node) {
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

}  // namespace gantry::fusion
