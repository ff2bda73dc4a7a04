#include "host/tune/lone_node.h"

#include <map>
#include <utility>

#include "host/ops/builder.h"
#include "host/passes/work_digest.h"

namespace gantry::tune {
namespace {

class Copier {
 public:
  explicit Copier(Function& to) : to_(to) {}

  Node* copy(const Node& node) {
    std::vector<Value*> inputs;
    for (const Value* input : node.inputs) inputs.push_back(input == nullptr ? nullptr : value_of(*input));
    Node* made = Builder(to_, node.origin).again(node, std::move(inputs));
    for (size_t i = 0; i < node.results.size(); ++i) known_[node.results[i]] = made->results[i];
    return made;
  }

 private:
  Value* value_of(const Value& value) {
    Value*& known = known_[&value];
    if (known == nullptr)
      known = value.is_constant() ? to_.add_constant(value.name, value.constant)
                                  : to_.add_parameter(value.name, value.type);
    return known;
  }

  Function& to_;
  std::map<const Value*, Value*> known_;
};

}  // namespace

Graph lone_node(const Function& function, const Node& node, const Decision& decision) {
  Graph graph;
  Copier copier(graph.main);
  Node* last = nullptr;
  for (const Node* part : work_nodes(function, node)) {
    last = copier.copy(*part);
    if (part == &node) last->decision = decision;
  }
  for (size_t i = 0; i < last->results.size(); ++i) {
    graph.main.outputs.push_back(last->results[i]);
    graph.main.output_names.push_back("result" + std::to_string(i));
  }
  return graph;
}

}  // namespace gantry::tune
