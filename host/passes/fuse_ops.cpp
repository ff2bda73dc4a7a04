#include "host/passes/fuse_ops.h"

#include <algorithm>
#include <optional>
#include <set>

#include "host/passes/fusion_report.h"
#include "host/passes/passes.h"

namespace gantry {
namespace {

constexpr size_t kMaxNameLength = 64;

bool needs_body(const FusionGroup& group) {
  const Node& node = *group.members.front();
  return group.members.size() > 1 ||
         (!op_def(node).is_view && op_def(node).fusion != FusionClass::kOpaque && node.bodies.empty());
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
      copy->decision = node->decision;
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

Node* replace_group(Function& main, const FusionGroup& group) {
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
  return fused;
}

}  // namespace

void fuse_ops(Graph& graph, PassContext& context) {
  Function& main = graph.main;
  FusionRecord record;
  FusionReport* report = context.fusion;
  const std::vector<FusionGroup> groups =
      find_fusion_groups(main, context.fuse, report ? &record : nullptr, context.apart);
  std::optional<FusionReporter> reporter;
  if (report) reporter.emplace(groups, record, *report);
  std::set<const Node*> replaced;
  const auto make_kernel = [&](const FusionGroup& group) -> const Node* {
    if (!needs_body(group)) return group.members.front();
    replaced.insert(group.members.begin(), group.members.end());
    return replace_group(main, group);
  };
  for (size_t i = 0; i < groups.size(); ++i) {
    const FusionGroup& group = groups[i];
    if (group.members.size() == 1 || context.take_rewrite()) {
      const Node* kernel = make_kernel(group);
      if (reporter) reporter->add_kernel(i, *kernel);
    } else {
      internal_check(!reporter, "a report on fusion needs every rewrite");
      for (Node* member : group.members) make_kernel({{member}});
    }
  }
  main.remove_nodes([&](const Node& node) { return replaced.count(&node) != 0; });
  main.drop_unused_constants();
}

extern const Pass fuse_ops_pass{
    .name = "fuse_ops",
    .purpose = "groups ops into kernels; below level 2 every op is a kernel of its own",
    .run = fuse_ops,
    .works_on_groups = true,
};

}  // namespace gantry
