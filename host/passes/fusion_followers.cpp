// First: what follows a convolution or matrix product joins it.
#include "host/passes/fusion_grouper.h"

namespace gantry::fusion {

std::optional<FusionRule> Grouper::cannot_follow(const Node& node, const Node& anchor) const {
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

const Node* Grouper::subject_of(FusionRule rule, const Node& reader, const Node& anchor) const {
  if (rule == FusionRule::kReaderIsTaken) return groups_[group_of_.at(&reader)].anchor;
  return rule == FusionRule::kReaderHasOtherShape ? &anchor : &reader;
}

void Grouper::put_down_end(const Group& group, const std::vector<Node*>& tried, const Node* stop,
                           FusionRule why) {
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

Node* Grouper::next_outside_user(const std::vector<Node*>& members) const {
  Node* next = nullptr;
  for (const Node* member : members) {
    for (Node* user : users_of(*member)) {
      if (std::find(members.begin(), members.end(), user) != members.end()) continue;
      if (next == nullptr || position_.at(user) < position_.at(next)) next = user;
    }
  }
  return next;
}

bool Grouper::is_closed(const std::vector<Node*>& members, const Node* sink) const {
  for (const Node* member : members) {
    if (member == sink) continue;
    if (outputs_.count(member->result()) != 0) return false;
    for (const Node* user : users_of(*member)) {
      if (std::find(members.begin(), members.end(), user) == members.end()) return false;
    }
  }
  return true;
}

void Grouper::grow_from_anchor(Node* anchor) {
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

}  // namespace gantry::fusion
