#include <map>
#include <set>

#include "host/ops/op.h"
#include "host/passes/passes.h"
#include "host/support/error.h"
#include "host/tensor/interpret.h"

namespace gantry {
namespace {

// A result may take this many times the bytes of what it comes from, and so much beyond.
constexpr int64_t kMaxGrowth = 4;
constexpr int64_t kMaxAddedBytes = int64_t{64} << 20;

/// Finds out whether the attributes mention symbols.
class SymbolFinder : public AttrVisitor {
 public:
  void operator()(std::string_view, int64_t&) override {}
  void operator()(std::string_view, double&) override {}
  void operator()(std::string_view, bool&) override {}
  void operator()(std::string_view, std::string&) override {}
  void operator()(std::string_view, DType&) override {}
  void operator()(std::string_view, Dim& value) override { found = found || !value.is_constant(); }
  void operator()(std::string_view, std::vector<int64_t>&) override {}
  void operator()(std::string_view, std::vector<double>&) override {}
  void operator()(std::string_view, Shape& value) override { found = found || !constant_shape(value); }

  bool found = false;

 protected:
  void enumeration_index(std::string_view, int64_t&, std::initializer_list<std::string_view>) override {}
};

bool has_symbolic_attrs(const Node& node) {
  SymbolFinder finder;
  node.attrs->clone()->fields(finder);  // visitors may assign, so fields() is not const
  return finder.found;
}

bool worth_folding(const Node& node) {
  int64_t before = 0, after = 0;
  for (const Value* input : node.inputs) {
    if (input == nullptr) continue;
    if (!input->is_constant()) return false;
    before += static_cast<int64_t>(input->constant->size);
  }
  for (const Value* result : node.results) {
    const auto bytes = result->type.byte_size().constant();
    if (!bytes) return false;
    after += *bytes;
  }
  return after <= before * kMaxGrowth + kMaxAddedBytes;
}

// The same bytes under the view's type.
ConstantPtr fold_view(const Node& node) {
  auto data = std::make_shared<ConstantData>(*node.inputs[0]->constant);
  data->type = node.result()->type;
  internal_check(data->type.byte_size() == Dim(static_cast<int64_t>(data->size)),
                 "{} changes the size of its input", node.op->name);
  return data;
}

// Values of the results; empty if the op cannot be evaluated here.
std::vector<ConstantPtr> evaluate(const Node& node) {
  if (node.op->is_view) return {fold_view(node)};
  if (node.op->fold) return node.op->fold(node);
  if (node.op->compute == nullptr || !node.bodies.empty()) return {};
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
  return interpret(node.op->compute(node, arguments), data);
}

}  // namespace

void fold_constant(Graph& graph) {
  Function& main = graph.main;
  std::set<const Node*> folded;
  for (Node* node : main.nodes()) {
    if (!worth_folding(*node) || has_symbolic_attrs(*node)) continue;
    const std::vector<ConstantPtr> values = evaluate(*node);
    if (values.size() != node->results.size()) continue;
    for (size_t i = 0; i < values.size(); ++i) {
      internal_check(values[i]->type == node->results[i]->type, "{} folds to a {} instead of a {}",
                     node->op->name, values[i]->type.str(), node->results[i]->type.str());
      main.replace_uses(node->results[i], main.add_constant(node->results[i]->name, values[i]));
    }
    folded.insert(node);
  }
  main.remove_nodes([&](const Node& node) { return folded.count(&node) != 0; });
  main.drop_unused_constants();
}

}  // namespace gantry
