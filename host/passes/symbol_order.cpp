#include "host/passes/symbol_order.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "host/ops/bind_dims.h"
#include "host/ops/op.h"
#include "host/support/error.h"

namespace gantry {
namespace {

class Orderer {
 public:
  explicit Orderer(const Function& function) {
    for (Node* node : function.nodes()) {
      for (const std::string& symbol : bound_symbols(*node)) binder_[symbol] = node;
    }
    for (Node* node : function.nodes()) visit(node);
  }
  std::vector<Node*> take() { return std::move(order_); }

 private:
  void visit(Node* node) {
    if (done_.count(node) != 0) return;
    internal_check(open_.insert(node).second, "node {} needs symbols that it must be there for", node->op->name);
    for (const Value* input : node->inputs) {
      if (input != nullptr && input->producer != nullptr) visit(input->producer);
    }
    std::set<std::string> symbols;
    add_mentioned_symbols(*node, symbols);
    for (const std::string& symbol : symbols) {
      if (const auto found = binder_.find(symbol); found != binder_.end()) visit(found->second);
    }
    done_.insert(node);
    order_.push_back(node);
  }

  std::map<std::string, Node*> binder_;
  std::set<const Node*> done_, open_;
  std::vector<Node*> order_;
};

}  // namespace

void order_by_symbols(Function& function) {
  if (!binds_symbols(function)) return;
  function.reorder(Orderer(function).take());
}

std::set<const Value*> outputs_sized_late(const Function& function) {
  std::set<const Value*> late;
  if (!binds_symbols(function)) return late;
  std::map<std::string, size_t> bound_at;
  std::map<const Node*, size_t> place;
  for (Node* node : function.nodes()) {
    const size_t at = place.size();
    place[node] = at;
    for (const std::string& symbol : bound_symbols(*node)) bound_at[symbol] = at;
  }
  for (Value* output : function.outputs) {
    const Value* root = root_of_views(output);
    if (root->producer == nullptr) continue;
    for (const Dim& dim : output->type.shape) {
      for (const std::string& symbol : dim.symbols()) {
        const auto bound = bound_at.find(symbol);
        if (bound != bound_at.end() && bound->second > place.at(root->producer)) late.insert(output);
      }
    }
  }
  return late;
}

}  // namespace gantry
