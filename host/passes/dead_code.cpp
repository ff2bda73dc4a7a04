#include <algorithm>
#include <set>

#include "host/passes/passes.h"

namespace gantry {

void dead_code(Graph& graph) {
  Function& main = graph.main;
  std::set<const Value*> live(main.outputs.begin(), main.outputs.end());
  std::set<const Node*> dead;
  const auto& nodes = main.nodes();
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
  main.remove_nodes([&](const Node& node) { return dead.count(&node) != 0; });
  main.drop_unused_constants();
}

}  // namespace gantry
