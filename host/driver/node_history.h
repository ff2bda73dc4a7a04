// What passes make of the model's nodes, for those that no kernel computes in the end.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "host/graph/graph.h"

namespace gantry {

/// How a node of the model went.
struct NodeEnd {
  std::string pass;                  ///< that left nothing of it; "import": it never was in the graph
  std::string ops;                   ///< what it was in the graph before; empty after import
  std::string type;                  ///< of its results then
  std::vector<std::string> readers;  ///< nodes that read them then
};
/// "its result, a Tensor[…], is a constant: fold_constant computed it; read by Conv_3"
std::string to_string(const NodeEnd& end);

/// Use: as CompileObserver::graph_pass.
class NodeHistory {
 public:
  void record(const std::string& pass, const Graph& graph);
  /// Nothing for a node that is still in the graph after the last pass that was recorded.
  std::optional<NodeEnd> end_of(const std::string& node) const;

 private:
  struct Seen {
    size_t pass = 0;  ///< the last after which it was there
    std::string ops, type;
    std::vector<std::string> readers;
  };
  /// The nodes as they are after the last pass.
  void record(const Function& function);
  std::vector<std::string> passes_;
  std::map<std::string, Seen> seen_;
};

}  // namespace gantry
