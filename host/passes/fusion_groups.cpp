#include "host/passes/fusion_groups.h"

#include <algorithm>

#include "host/passes/fusion_grouper.h"
#include "host/passes/fusion_reasons.h"

namespace gantry {
namespace fusion {

std::vector<FusionGroup> Grouper::run() {
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

void Grouper::sort_by_position(std::vector<Node*>& nodes) const {
  std::sort(nodes.begin(), nodes.end(), [&](Node* a, Node* b) { return position_.at(a) < position_.at(b); });
}

const std::vector<Node*>& Grouper::users_of(const Node& node) const {
  static const std::vector<Node*> kNone;
  const auto found = users_.find(node.result());
  return found == users_.end() ? kNone : found->second;
}

size_t Grouper::open_group(Node* node, Node* anchor) {
  groups_.push_back({{node}, anchor});
  group_of_[node] = groups_.size() - 1;
  return groups_.size() - 1;
}

int64_t Grouper::expansion(std::vector<Node*> members) const {
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

void Grouper::joined(const Node& node, FusionRule rule, const Node* other) {
  if (record_ != nullptr) record_->put_member(node, rule, other);
}

void Grouper::apart(const Node& maker, const Node& reader, FusionRule rule, const Node* other) {
  if (record_ != nullptr) record_->put_apart(maker, reader, rule, other);
}

bool Grouper::refuse(const Node& maker, FusionRule rule) {
  if (record_ == nullptr) return false;
  for (const Value* result : maker.results) {
    const auto found = users_.find(result);
    if (found == users_.end()) continue;
    for (const Node* reader : found->second) apart(maker, *reader, rule);
  }
  return false;
}

std::optional<FusionRule> Grouper::joins_nothing(const Node& node) {
  if (op_def(node).is_view) return FusionRule::kView;
  if (node.results.size() != 1) return FusionRule::kSeveralResults;
  if (!node.bodies.empty()) return FusionRule::kHasBodies;
  if (!may_join(node) && !is_anchor(node)) return FusionRule::kOpaque;
  return std::nullopt;
}

bool Grouper::is_apart(const Node& maker, const Node& reader) const {
  return std::ranges::any_of(apart_, [&](const Separation& edge) { return edge.is_of(maker, reader); });
}

bool Grouper::stays_apart(const Node& node) {
  if (apart_.empty() || node.results.size() != 1) return false;
  const auto& users = users_of(node);
  const bool stays = std::ranges::any_of(users, [&](const Node* user) { return is_apart(node, *user); });
  if (stays) refuse(node, FusionRule::kKeptApart);
  return stays;
}

bool Grouper::is_apart_from(const Node& node, const std::vector<Node*>& members) const {
  return !apart_.empty() && std::ranges::any_of(members, [&](const Node* member) {
    return std::ranges::find(node.inputs, member->result()) != node.inputs.end() && is_apart(*member, node);
  });
}

}  // namespace fusion

std::vector<FusionGroup> find_fusion_groups(const Function& function, bool enable, FusionRecord* record,
                                            std::span<const Separation> apart) {
  if (enable) return fusion::Grouper(function, record, apart).run();
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
