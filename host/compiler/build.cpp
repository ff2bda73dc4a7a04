#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>

#include "device_runtime/src/device.h"
#include "host/codegen/gpu_codegen.h"
#include "host/compiler/compiler.h"
#include "host/support/error.h"

namespace gantry {
namespace {

/// A kernel given as tensor expressions.
struct TensorsAttrs : AttrsOf<TensorsAttrs> {
  std::vector<Tensor> inputs, outputs;
  void fields(AttrVisitor&) override {}
};
constexpr Op<TensorsAttrs> kTensors{"tensors"};

TensorType type_of(const Tensor& tensor) {
  TensorType type{tensor.dtype(), {}};
  for (const Expr& extent : tensor.shape()) {
    const auto* number = extent.as<IntImmNode>();
    if (number == nullptr)
      user_error("tensor {}: its shape must be constant, but has the extent {}", tensor.op()->name, to_string(extent));
    type.shape.emplace_back(number->value);
  }
  return type;
}

/// The one op of the graph. Its declaration lives as long as the program: graphs point to it.
const OpDef& tensors_op() {
  static const OpDef declared = [] {
    OpDef def;
    def.handle = &kTensors;
    def.name = kTensors.name();
    def.min_inputs = 0;
    def.max_inputs = -1;
    def.keeps_types = true;
    def.infer = [](const Node& node, Function&) {
      std::vector<TensorType> types;
      for (const Tensor& output : node.match(kTensors)->outputs) types.push_back(type_of(output));
      return types;
    };
    def.compute = [](const Node& node, const std::vector<Tensor>&) { return node.match(kTensors)->outputs; };
    return def;
  }();
  return declared;
}

/// The tensors' names; of those that share one, name_0 and so on.
std::vector<std::string> names_of(const std::vector<Tensor>& outputs) {
  std::map<std::string, int> counts, next;
  for (const Tensor& output : outputs) ++counts[output.op()->name];
  std::set<std::string> taken;
  for (const auto& [name, count] : counts) taken.insert(name);
  std::vector<std::string> names;
  for (const Tensor& output : outputs) {
    std::string name = output.op()->name;
    if (counts[name] > 1) {
      int& number = next[name];
      do {
        name = fmt::format("{}_{}", output.op()->name, number++);
      } while (!taken.insert(name).second);
    }
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace

Graph graph_of(const std::vector<Tensor>& inputs, const Schedule& schedule, const std::string& name,
               CompileOptions& options) {
  Graph graph{name, Function("main")};
  std::vector<Value*> values;
  for (const Tensor& input : inputs) {
    if (input.op()->kind != OperationNode::Kind::kPlaceholder)
      user_error("{}: the input {} is computed; inputs are placeholders", name, input.op()->name);
    values.push_back(graph.main.add_parameter(input.op()->name, type_of(input)));
  }
  auto attrs = std::make_shared<TensorsAttrs>();
  attrs->inputs = inputs;
  attrs->outputs = schedule.outputs();
  const Node* node = infer_and_add(graph.main, tensors_op(), attrs, values, {name});
  graph.main.outputs.assign(node->results.begin(), node->results.end());
  graph.main.output_names = names_of(attrs->outputs);
  options.own_kernel = [&schedule](const Node& of, const std::vector<Tensor>&) -> std::optional<OwnKernel> {
    const auto* own = of.match(kTensors);
    if (own == nullptr) return std::nullopt;
    // The caller keeps it.
    return OwnKernel{own->inputs, std::shared_ptr<const Schedule>(std::shared_ptr<void>(), &schedule)};
  };
  return graph;
}

LoadedProgram load(ModuleFile& module, const Target& target, int threads) {
  const std::string device = runtime::device_text({device_in_modules(target), 0});
  return LoadedProgram(serialize_module(module), threads, device);
}

ModuleFile build(const std::vector<Tensor>& inputs, const Schedule& schedule, const Target& target,
                 const std::string& name) {
  CompileOptions options;
  options.targets = {target};
  const Graph graph = graph_of(inputs, schedule, name, options);
  return compile_graph(graph, options);
}

}  // namespace gantry
