// What passes change a function with: every change is counted, and may be refused.
//
//   Rewriter rewriter(graph.main, context);
//   for (Node* node : rewriter.nodes()) {
//     if (node->is(op::identity)) rewriter.replace(node->result(), node->inputs[0]);
//   }
//
// Values know their users at all times (Value::users). What is replaced stays in the function, unused, until
// dead_code: a pass may hold nodes and values while it runs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "host/ops/builder.h"
#include "host/passes/pass.h"

namespace gantry {

class Rewriter {
 public:
  Rewriter(Function& function, PassContext& context) : function_(function), context_(context) {}

  Function& function() const { return function_; }
  PassContext& context() const { return context_; }
  /// The nodes as they are now, in order; those that are added later are not among them.
  std::vector<Node*> nodes() const { return function_.nodes(); }
  /// Adds nodes in front of `node`: of its origin, or of the one given.
  Builder before(const Node& node) const { return Builder(function_, node); }
  Builder before(const Node& node, std::vector<std::string> origin) const {
    return Builder(function_, std::move(origin), &node);
  }
  /// All that reads or returns `from` is to take `to`: one rewrite. False, and nothing changes, where no more
  /// may be made.
  bool replace(Value* from, Value* to) const {
    if (!context_.take_rewrite()) return false;
    function_.replace_uses(from, to);
    return true;
  }

 private:
  Function& function_;
  PassContext& context_;
};

/// The node that makes the value if it is of that op, else null.
inline Node* producer_of(const Value* value, const OpHandle& op) {
  Node* node = value != nullptr ? value->producer : nullptr;
  return node != nullptr && node->is(op) ? node : nullptr;
}
/// The only node that reads the value if it is of that op, else null.
inline Node* only_user_of(const Function& function, const Value* value, const OpHandle& op) {
  Node* user = function.only_user(value);
  return user != nullptr && user->is(op) ? user : nullptr;
}
/// Adds names that are not among them yet.
void join_origin(std::vector<std::string>& origin, const std::vector<std::string>& more);
/// Removes nodes whose results nothing uses, and constants likewise. Not a rewrite: nothing that is computed
/// changes.
void remove_dead_nodes(Function& function);

}  // namespace gantry
