// What is decided for a network as a whole while it is compiled: as it is given (--decisions), or as it was
// recorded.
#pragma once

#include <string_view>
#include <vector>

#include "host/driver/compile.h"
#include "host/passes/pass.h"

namespace gantry {

/// The pass in front of which nodes are as decisions are made for them, which takes those of nodes, and the
/// one that keeps nodes apart.
inline constexpr std::string_view kDecidingPass = "alter_layout", kFusingPass = "fuse_ops";

/// Of the main function; functions that control flow calls are computed as they are without it.
class NetworkDecider {
 public:
  /// All outlive it. The context's `recorded` is what is asked.
  NetworkDecider(const Target& target, const CompileOptions& options, PassContext& context)
      : target_(target), options_(options), context_(context) {}

  /// Before a pass: decides where it is alter_layout, from records, too, or, without that, where it is
  /// fuse_ops. A user error for what is to be kept apart and is no pair of nodes of the graph, nor of that of
  /// another program of the target.
  void before(std::string_view pass, const Graph& graph);
  /// Behind it: tells the observer once it has decided.
  void after(std::string_view pass);

  const NetworkDecision& decided() const { return decided_; }

 private:
  void take_given(const Function& function);
  void take_recorded(const Function& function);
  void take_layouts(const Function& function, const RecordedDecisions::NetworkAnswer& answer,
                    NetworkRecord& said);
  void take_products(const RecordedDecisions::NetworkAnswer& answer, NetworkRecord& said);
  void take_fusions(const Function& function, const RecordedDecisions::NetworkAnswer& answer,
                    NetworkRecord& said);
  void tell();

  const Target& target_;
  const CompileOptions& options_;
  PassContext& context_;
  NetworkDecision decided_;
  RecordedLayouts layouts_;
  std::vector<NetworkRecord> records_;  ///< parallel to network_questions(), or empty
  bool done_ = false, told_ = false;
};

}  // namespace gantry
