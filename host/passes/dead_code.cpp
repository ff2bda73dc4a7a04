#include <algorithm>
#include <set>

#include "host/passes/passes.h"
#include "host/passes/rewriter.h"

namespace gantry {

void remove_dead_nodes(Function& function) {
  std::set<const Value*> live(function.outputs.begin(), function.outputs.end());
  std::set<const Node*> dead;
  const auto& nodes = function.nodes();
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    const Node& node = **it;
    const bool used = std::any_of(node.results.begin(), node.results.end(),
                                  [&](const Value* v) { return live.count(v) != 0; });
    if (used) {
      live.insert(node.inputs.begin(), node.inputs.end());
    } else {
      dead.insert(&node);
    }
  }
  function.remove_nodes([&](const Node& node) { return dead.count(&node) != 0; });
  function.drop_unused_constants();
}

void join_origin(std::vector<std::string>& origin, const std::vector<std::string>& more) {
  for (const std::string& name : more) {
    if (std::find(origin.begin(), origin.end(), name) == origin.end()) origin.push_back(name);
  }
}

void dead_code(Graph& graph, PassContext&) {
  remove_dead_nodes(graph.main);
}

extern const Pass dead_code_pass{
    .name = "dead_code",
    .purpose = "drops what nothing uses",
    .run = dead_code,
    .works_on_groups = true,
};

}  // namespace gantry
