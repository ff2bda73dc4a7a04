// What fuse_ops made of a graph, and by which rules.
#pragma once

#include <vector>

#include "host/passes/fusion_groups.h"
#include "host/passes/fusion_reasons.h"

namespace gantry {

/// Of the graph after fuse_ops, as long as it lives.
struct FusionReport {
  struct Member {
    const Node* node = nullptr;  ///< in the kernel's body; the kernel's node where it has none
    FusionReason why;
  };
  struct Kernel {
    const Node* node = nullptr;
    std::vector<Member> members;  ///< in execution order
  };
  /// One kernel reads a result of another, perhaps through views.
  struct Edge {
    size_t from = 0, to = 0;          ///< indices of kernels
    int result = 0;                   ///< of `from`
    std::vector<const OpDef*> views;  ///< between, in order
    const OpDef* maker = nullptr;     ///< the member of `from` that makes the value
    FusionReason why;
  };
  std::vector<Kernel> kernels;  ///< every node that is no view, in execution order
  std::vector<Edge> edges;      ///< each pair, result and way of views once, in execution order of `to`
};

/// Fills in a report while a function's groups are replaced by fused nodes.
class FusionReporter {
 public:
  /// Before: finds the edges between the groups. All three outlive it.
  FusionReporter(const std::vector<FusionGroup>& groups, const FusionRecord& record, FusionReport& report);
  /// `node` stands for that group now. Groups come in order; those of a view by itself are left out.
  void add_kernel(size_t group, const Node& node);

 private:
  void add_edges(size_t group, const Node& reader);
  void add_edge(size_t group, const Node& reader, const Value& input);

  const std::vector<FusionGroup>& groups_;
  const FusionRecord& record_;
  FusionReport& report_;
  std::map<const Node*, size_t> group_of_;
  std::vector<size_t> kernel_of_;  ///< by group
};

}  // namespace gantry
