#include "host/passes/fuse_ops.h"

#include <algorithm>
#include <set>

#include "host/passes/fusion_groups.h"
#include "host/passes/passes.h"

namespace gantry {
namespace {

constexpr size_t kMaxNameLength = 64;

// Kernels hold these as immediates.
bool is_immediate(const Value& value) {
  const DType dtype = value.type.dtype;
  return value.is_constant() && element_count(value.type.shape) == Dim(1) && dtype != DType::kF16 &&
         dtype != DType::kBF16 && dtype != DType::kU64;
}

bool needs_body(const FusionGroup& group) {
  const Node& node = *group.members.front();
  return group.members.size() > 1 ||
         (!node.op->is_view && node.op->fusion != FusionClass::kOpaque && node.bodies.empty());
}

/// Builds the body of a group and collects the values that it takes from outside.
class BodyBuilder {
 public:
  explicit BodyBuilder(const FusionGroup& group) : group_(group), body_(std::make_unique<Function>(name())) {
    values_[nullptr] = nullptr;
  }

  void build() {
    for (const Node* node : group_.members) {
      std::vector<Value*> arguments;
      for (Value* input : node->inputs) arguments.push_back(inner(input));
      std::vector<TensorType> types;
      for (const Value* result : node->results) types.push_back(result->type);
      Node* copy =
          body_->add_node(node->op, node->attrs, std::move(arguments), std::move(types), node->origin);
      for (size_t i = 0; i < copy->results.size(); ++i) values_[node->results[i]] = copy->results[i];
      for (const std::string& from : node->origin) {
        if (std::find(origin.begin(), origin.end(), from) == origin.end()) origin.push_back(from);
      }
    }
    for (const Value* result : group_.members.back()->results) body_->outputs.push_back(values_.at(result));
  }

  std::unique_ptr<Function> take_body() { return std::move(body_); }

  std::vector<Value*> inputs;
  std::vector<std::string> origin;

 private:
  // The ops' names, for people who read the graph.
  std::string name() const {
    std::string text;
    for (const Node* node : group_.members) text += (text.empty() ? "" : "_") + node->op->name;
    return text.substr(0, kMaxNameLength);
  }

  Value* inner(Value* value) {
    const auto known = values_.find(value);
    if (known != values_.end()) return known->second;
    Value*& mine = values_[value];
    if (is_immediate(*value)) {
      mine = body_->add_constant(value->name, value->constant);
    } else {
      mine = body_->add_parameter(value->name, value->type);
      inputs.push_back(value);
    }
    return mine;
  }

  const FusionGroup& group_;
  std::unique_ptr<Function> body_;
  std::map<const Value*, Value*> values_;
};

void replace_group(Function& main, const FusionGroup& group) {
  BodyBuilder builder(group);
  builder.build();
  Node* sink = group.members.back();
  std::vector<TensorType> types;
  for (const Value* result : sink->results) types.push_back(result->type);
  Node* fused =
      main.add_node(fused_op(), nullptr, builder.inputs, std::move(types), std::move(builder.origin), sink);
  fused->bodies.push_back(builder.take_body());
  for (size_t i = 0; i < sink->results.size(); ++i) {
    Value *old = sink->results[i], *value = fused->results[i];
    main.replace_uses(old, value);
    const std::string name = old->name;
    main.rename(old, name + ".fused");  // the old node is about to go
    main.rename(value, name);
  }
}

}  // namespace

void fuse_ops(Graph& graph, bool enable) {
  Function& main = graph.main;
  std::set<const Node*> replaced;
  for (const FusionGroup& group : find_fusion_groups(main, enable)) {
    if (!needs_body(group)) continue;
    replace_group(main, group);
    replaced.insert(group.members.begin(), group.members.end());
  }
  main.remove_nodes([&](const Node& node) { return replaced.count(&node) != 0; });
  main.drop_unused_constants();
}

}  // namespace gantry
