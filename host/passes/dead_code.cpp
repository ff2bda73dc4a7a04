#include <algorithm>
#include <set>

#include "host/ops/bind_dims.h"
#include "host/ops/op.h"
#include "host/passes/passes.h"
#include "host/passes/rewriter.h"

namespace gantry {

namespace {

/// What is used, from the last node to the first.
class Liveness {
 public:
  explicit Liveness(const Function& function)
      : values_(function.outputs.begin(), function.outputs.end()), with_symbols_(binds_symbols(function)) {
    if (!with_symbols_) return;
    for (const Value* output : function.outputs) add_symbols(output->type.shape);
    for (const DimConstraint& constraint : function.constraints) add_symbols({constraint.left, constraint.right});
  }

  /// Whether the node is; then what it uses is too.
  bool take(const Node& node) {
    const auto is_used = [&](const Value* v) { return values_.count(v) != 0; };
    if (!std::ranges::any_of(node.results, is_used) && !binds_used_symbols(node)) return false;
    values_.insert(node.inputs.begin(), node.inputs.end());
    if (with_symbols_) add_mentioned_symbols(node, symbols_);
    return true;
  }

 private:
  void add_symbols(const Shape& dims) {
    for (const Dim& dim : dims) {
      for (std::string& name : dim.symbols()) symbols_.insert(std::move(name));
    }
  }
  bool binds_used_symbols(const Node& node) const {
    return with_symbols_ &&
           std::ranges::any_of(bound_symbols(node), [&](const std::string& s) { return symbols_.count(s) != 0; });
  }

  std::set<const Value*> values_;
  std::set<std::string> symbols_;
  bool with_symbols_;
};

}  // namespace

void remove_dead_nodes(Function& function) {
  Liveness live(function);
  std::set<const Node*> dead;
  const auto& nodes = function.nodes();
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    if (!live.take(**it)) dead.insert(*it);
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
