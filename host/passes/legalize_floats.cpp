#include <algorithm>
#include <map>

#include "host/ops/elementwise.h"
#include "host/passes/passes.h"
#include "host/passes/rewriter.h"

namespace gantry {
namespace {

bool is_narrow(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16;
}

class FloatLegalizer {
 public:
  explicit FloatLegalizer(const Rewriter& rewriter) : rewriter_(rewriter), function_(rewriter.function()) {}

  void run() {
    for (Node* node : rewriter_.nodes()) {
      if (!node->bodies.empty()) continue;  // a kernel already
      if (node->match(op::cast) != nullptr) {
        legalize_cast(*node);
      } else if (!op_def(*node).keeps_types && computes_in_narrow(*node)) {
        legalize(*node);
      }
    }
  }

 private:
  /// Not so a product of f32 data whose weights have been rounded: its kernels make of those what they need.
  static bool computes_in_narrow(const Node& node) {
    const auto narrow = [](const Value* value) { return value != nullptr && is_narrow(value->type.dtype); };
    return (!node.inputs.empty() && narrow(node.inputs[0])) || std::ranges::any_of(node.results, narrow);
  }

  Value* cast(Value* value, DType to, const Node& before) {
    auto attrs = std::make_shared<CastAttrs>();
    attrs->to = to;
    return rewriter_.before(before)(op::cast, {value}, attrs);
  }

  /// The value in f32: as it was before it was rounded, where a node before computed it so.
  Value* wide(Value* value, const Node& before) {
    if (value == nullptr || !is_narrow(value->type.dtype)) return value;
    Value*& known = wide_[value];
    if (known == nullptr) known = cast(value, DType::kF32, before);
    return known;
  }

  /// A cast to a narrow type is the model's own rounding and stays; one from it to a wider float begins at
  /// what is known. Integers and truth jump where numbers round: they begin at the rounded value.
  void legalize_cast(Node& node) {
    Value* input = node.inputs[0];
    if (!is_narrow(input->type.dtype)) return;
    const DType to = node.result()->type.dtype;
    if (to == input->type.dtype || !is_float(to)) return;
    Value* source = wide(input, node);
    rewriter_.replace(node.result(), to == DType::kF32 ? source : cast(source, to, node));
  }

  void legalize(Node& node) {
    std::vector<Value*> inputs;
    for (Value* input : node.inputs) inputs.push_back(wide(input, node));
    if (!rewriter_.context().take_rewrite()) return;
    Node* computed = rewriter_.before(node).again(node, inputs);
    for (size_t i = 0; i < node.results.size(); ++i) {
      Value *before = node.results[i], *result = computed->results[i];
      if (!(result->type.dtype == before->type.dtype)) {
        Value* narrow = cast(result, before->type.dtype, node);
        wide_[narrow] = result;
        result = narrow;
      }
      function_.replace_uses(before, result);
    }
  }

  const Rewriter& rewriter_;
  Function& function_;
  std::map<const Value*, Value*> wide_;  ///< f32 values of narrow ones
};

}  // namespace

void legalize_floats(Graph& graph, PassContext& context) {
  FloatLegalizer(Rewriter(graph.main, context)).run();
  remove_dead_nodes(graph.main);
}

extern const Pass legalize_floats_pass{
    .name = "legalize_floats",
    .purpose = "on CPUs f16 and bf16 compute in f32",
    .when = for_cpus,
    .run = legalize_floats,
};

}  // namespace gantry
