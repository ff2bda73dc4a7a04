// Then: what a kernel copies anyway is computed as it is copied.
#include <set>

#include "host/ops/bitcast.h"
#include "host/passes/fusion_grouper.h"

namespace gantry::fusion {

bool Grouper::maps_indices(const Node& node) {
  return is_injective(node) && present_inputs(node) == 1 && node.results.size() == 1 && node.bodies.empty();
}

bool Grouper::is_staged(const Node& node, const Node& user) const {
  if (operand_maps_.count(&user) != 0) return true;
  if (!op_def(user).stages_input) return false;
  for (size_t i = 0; i < user.inputs.size(); ++i) {
    if (user.inputs[i] == node.result() && !op_def(user).stages_input(user, i)) return false;
  }
  return true;
}

std::optional<size_t> Grouper::staging_group(const Node& node) const {
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

bool Grouper::join_operand(Node* node) {
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

bool Grouper::is_copied(const Node& node, const Node& user) const {
  if (operand_arithmetic_.count(&user) != 0) return count_of(node.result()) == count_of(user.result());
  if (!op_def(user).copies_input) return false;
  for (size_t i = 0; i < user.inputs.size(); ++i) {
    if (user.inputs[i] == node.result() && !op_def(user).copies_input(user, i)) return false;
  }
  return true;
}

bool Grouper::follows_index_map(const Node& node) const {
  std::set<const Node*> followed;  // once each, however often the node reads it
  for (const Value* input : node.inputs) {
    const Node* source = input == nullptr ? nullptr : input->producer;
    if (source == nullptr || !may_join(*source) || users_of(*source).size() != 1 ||
        outputs_.count(input) != 0 || count_of(input) != count_of(node.result()))
      continue;
    if (!followed.insert(source).second) continue;
    if (is_injective(*source) || follows_index_map(*source)) return true;
  }
  return false;
}

bool Grouper::join_copied(Node* node) {
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

}  // namespace gantry::fusion
