#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "host/graph/spilled_constant.h"
#include "host/graph/symbolic_attrs.h"
#include "host/ops/op.h"
#include "host/passes/passes.h"
#include "host/passes/rewriter.h"
#include "host/passes/spilled_transposition.h"
#include "host/passes/weight_growth.h"
#include "host/support/error.h"
#include "host/tensor/interpret.h"

namespace gantry {
namespace {

// A result may take this many times the bytes of what it comes from, and so much beyond.
constexpr int64_t kMaxGrowth = 4;
constexpr int64_t kMaxAddedBytes = int64_t{64} << 20;

bool has_constant_inputs(const Node& node) {
  return std::ranges::all_of(node.inputs, [](const Value* v) { return v == nullptr || v->is_constant(); });
}

/// Bytes of the results, which must be known.
std::optional<int64_t> bytes_of_results(const Node& node) {
  int64_t total = 0;
  for (const Value* result : node.results) {
    // Of no elements, too, the sizes beside the 0 may be open.
    if (!constant_shape(result->type.shape)) return std::nullopt;
    total += result->type.byte_size().value();
  }
  return total;
}

int64_t bytes_of_inputs(const Node& node) {
  int64_t total = 0;
  for (const Value* input : node.inputs) total += input == nullptr ? 0 : int64_t(input->constant->size);
  return total;
}

/// Which constants go when the nodes that read them are folded.
class FreedConstants {
 public:
  explicit FreedConstants(const Function& function)
      : users_(function.users()), outputs_(function.outputs.begin(), function.outputs.end()) {}

  /// The constant takes the place of a node's result; a view's bytes are those of its input.
  void replace(const Node& node, const Value* result, const Value* constant) {
    result_of_[constant] = result;
    if (op_def(node).is_view) viewed_[constant] = node.inputs[0];
  }

  int64_t bytes(const Node& node) const {
    int64_t total = 0;
    for (const Value* input : std::set<const Value*>(node.inputs.begin(), node.inputs.end())) {
      if (input != nullptr && goes(input)) total += static_cast<int64_t>(input->constant->size);
    }
    return total;
  }

 private:
  bool goes(const Value* constant) const {
    const auto result = result_of_.find(constant);
    const Value* value = result == result_of_.end() ? constant : result->second;
    if (const auto viewed = viewed_.find(constant); viewed != viewed_.end() && !goes(viewed->second))
      return false;
    if (outputs_.count(value) != 0) return false;
    const auto users = users_.find(value);
    if (users == users_.end()) return false;
    return std::ranges::all_of(users->second, [](const Node* user) { return has_constant_inputs(*user); });
  }

  std::map<const Value*, std::vector<Node*>> users_;
  std::set<const Value*> outputs_;
  std::map<const Value*, const Value*> result_of_, viewed_;
};

// The same bytes under the view's type.
ConstantPtr fold_view(const Node& node) {
  auto data = std::make_shared<ConstantData>(*node.inputs[0]->constant);
  data->type = node.result()->type;
  internal_check(data->type.byte_size() == Dim(static_cast<int64_t>(data->size)),
                 "{} changes the size of its input", node.op->name);
  return data;
}

// Values of the results; empty if the op cannot be evaluated here.
std::vector<ConstantPtr> evaluate(const Node& node, SpillFile* spill) {
  if (op_def(node).is_view) return {fold_view(node)};
  if (spill != nullptr) {
    if (ConstantPtr turned = spilled_transposition(node, *spill, kLargeTogether)) return {std::move(turned)};
    if (ConstantPtr padded = spilled_padding(node, *spill, kLargeTogether)) return {std::move(padded)};
  }
  if (op_def(node).fold) return op_def(node).fold(node);
  if (op_def(node).compute == nullptr || !node.bodies.empty()) return {};
  std::vector<Tensor> arguments;
  std::map<const OperationNode*, ConstantPtr> data;
  for (const Value* input : node.inputs) {
    if (input == nullptr) {
      arguments.emplace_back();
      continue;
    }
    arguments.push_back(placeholder(to_exprs(input->type.shape), input->type.dtype, input->name));
    data[arguments.back().op().get()] = input->constant;
  }
  return interpret(op_def(node).compute(node, arguments), data);
}

/// Frees the bytes of the node's inputs that only folded nodes read: of large models weights would else be in
/// memory as they are and as they were, until the last is folded. The values keep type and size until they go.
void free_inputs(const Function& main, const Node& node, const std::set<const Node*>& folded) {
  for (Value* input : node.inputs) {
    if (input == nullptr || main.is_output(input)) continue;
    const bool read = std::ranges::any_of(
        input->users, [&](const Node* user) { return folded.count(user) == 0; });
    if (read) continue;
    auto empty = std::make_shared<ConstantData>();
    empty->type = input->constant->type;
    empty->size = input->constant->size;
    input->constant = std::move(empty);
  }
}

/// Results that go to the disk when those in memory are large together. What folding used up before is never
/// written.
class Results {
 public:
  /// Null: they stay in memory.
  explicit Results(SpillFile* file) : file_(file) {}

  void add(Value* constant) {
    if (file_ == nullptr || !may_spill(constant->constant)) return;
    in_memory_.push_back(constant);
    bytes_ += constant->constant->size;
    if (bytes_ < kLargeTogether) return;
    for (Value* each : in_memory_) {
      if (may_spill(each->constant)) each->constant = spilled(std::move(each->constant), *file_);
    }
    in_memory_.clear();
    bytes_ = 0;
  }

 private:
  SpillFile* file_;
  std::vector<Value*> in_memory_;
  size_t bytes_ = 0;
};

/// `grows`: up to the limits above; else hardly.
void fold(Function& main, bool grows, PassContext& context) {
  main.drop_unused_constants();  // so that they are not in memory beside what is made here
  FreedConstants freed(main);
  Results results(context.spill);
  const auto worth_folding = [&](const Node& node, int64_t after) {
    if (grows) return after <= bytes_of_inputs(node) * kMaxGrowth + kMaxAddedBytes;
    return op_def(node).is_view || grows_little(freed.bytes(node), after);
  };
  std::set<const Node*> folded;
  for (Node* node : main.nodes()) {
    if (op_def(*node).bound_symbols) continue;
    const auto after = bytes_of_results(*node);
    if (!after || !has_constant_inputs(*node) || !worth_folding(*node, *after) || mentions_symbols(*node->attrs))
      continue;
    std::vector<ConstantPtr> values = evaluate(*node, context.spill);
    if (values.size() != node->results.size() || !context.take_rewrite()) continue;
    for (size_t i = 0; i < values.size(); ++i) {
      internal_check(values[i]->type == node->results[i]->type, "{} folds to a {} instead of a {}",
                     node->op->name, values[i]->type.str(), node->results[i]->type.str());
      Value* constant = main.add_constant(node->results[i]->name, std::move(values[i]));
      main.replace_uses(node->results[i], constant);
      freed.replace(*node, node->results[i], constant);
      results.add(constant);
    }
    folded.insert(node);
    free_inputs(main, *node, folded);
  }
  main.remove_nodes([&](const Node& node) { return folded.count(&node) != 0; });
  main.drop_unused_constants();
}

}  // namespace

void fold_constant(Graph& graph, PassContext& context) {
  if (context.small) remove_dead_nodes(graph.main);  // what nothing uses needs no constant
  fold(graph.main, !context.small, context);
}

extern const Pass fold_constant_pass{
    .name = "fold_constant",
    .purpose = "what depends on constants alone is computed",
    .run = fold_constant,
};

}  // namespace gantry
