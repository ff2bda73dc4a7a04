#include "host/passes/fusion_report.h"

#include <algorithm>

#include "host/ops/op.h"
#include "host/support/error.h"

namespace gantry {
namespace {

bool is_view_alone(const FusionGroup& group) {
  return group.members.size() == 1 && op_def(*group.members.front()).is_view;
}

/// Says less than what another rule says of the same two kernels.
bool is_about_others(const FusionReason& reason) {
  return reason.rule == FusionRule::kOtherReader || reason.rule == FusionRule::kReadersStayApart;
}

}  // namespace

FusionReporter::FusionReporter(const std::vector<FusionGroup>& groups, const FusionRecord& record,
                               FusionReport& report)
    : groups_(groups), record_(record), report_(report), kernel_of_(groups.size()) {
  report_ = {};
  size_t kernels = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    for (const Node* member : groups[i].members) group_of_[member] = i;
    kernel_of_[i] = kernels;
    if (!is_view_alone(groups[i])) ++kernels;
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    if (is_view_alone(groups[i])) continue;
    for (const Node* member : groups[i].members) add_edges(i, *member);
  }
}

void FusionReporter::add_edges(size_t group, const Node& reader) {
  for (const Value* input : reader.inputs) {
    if (input != nullptr && input->producer != nullptr && group_of_.at(input->producer) != group)
      add_edge(group, reader, *input);
  }
}

// From the reader back through views to the kernel that makes the bytes. The rule is that of the first step
// from there.
void FusionReporter::add_edge(size_t group, const Node& reader, const Value& input) {
  FusionReport::Edge edge;
  const Value* value = &input;
  const Node* next = &reader;
  while (value->producer != nullptr && is_view_alone(groups_[group_of_.at(value->producer)])) {
    next = value->producer;
    edge.views.insert(edge.views.begin(), &op_def(*next));
    value = next->inputs[0];
  }
  const Node* maker = value->producer;
  if (maker == nullptr) return;  // of a parameter or a constant
  const auto reason = record_.apart.find({maker, next});
  internal_check(reason != record_.apart.end(), "no rule has put down why {} and {} are apart",
                 maker->op->name, next->op->name);
  edge.from = kernel_of_[group_of_.at(maker)];
  edge.to = kernel_of_[group];
  edge.result = value->result_index;
  edge.maker = &op_def(*maker);
  edge.why = reason->second;
  const auto known = std::ranges::find_if(report_.edges, [&](const FusionReport::Edge& other) {
    return other.from == edge.from && other.to == edge.to && other.result == edge.result &&
           other.views == edge.views;
  });
  if (known == report_.edges.end()) return report_.edges.push_back(std::move(edge));
  if (is_about_others(known->why)) known->why = edge.why;
}

void FusionReporter::add_kernel(size_t group, const Node& node) {
  if (is_view_alone(groups_[group])) return;
  FusionReport::Kernel kernel{&node, {}};
  for (size_t i = 0; i < groups_[group].members.size(); ++i) {
    const Node* member =
        node.bodies.empty() || groups_[group].members[i] == &node ? &node : node.bodies[0]->nodes()[i];
    kernel.members.push_back({member, record_.members.at(groups_[group].members[i])});
  }
  report_.kernels.push_back(std::move(kernel));
}

}  // namespace gantry
