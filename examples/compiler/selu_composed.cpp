// SELU composed from ops that there are: scale * (max(x, 0) + alpha * (exp(min(x, 0)) - 1)). Fusion makes one kernel of
// it, as fast as an op of its own; a rule then recognises the composition and puts the op in its place.
#include "check.h"
#include "host/ops/elementwise.h"
#include "host/passes/fuse_ops.h"

using namespace gantry;

namespace {

constexpr double kAlpha = 1.67326324, kScale = 1.05070098;
constexpr int64_t kCount = 10000;

Graph selu() {
  Graph graph{"selu", Function("main")};
  Function& f = graph.main;
  Value* x = f.add_parameter("x", {DType::kF32, {kCount}});
  const auto number = [&](double value) { return f.add_constant("c", example::tensor({}, {static_cast<float>(value)})); };
  const Builder build(f, {"selu"});
  Value* zero = number(0);
  Value* below = build(op::subtract, {build(op::exp, {build(op::minimum, {x, zero})}), number(1)});
  Value* sum = build(op::add, {build(op::maximum, {x, zero}), build(op::multiply, {below, number(kAlpha)})});
  f.outputs = {build(op::multiply, {sum, number(kScale)})};
  f.output_names = {"y"};
  return graph;
}

/// The composition as a pattern, with nn.selu in its place.
std::vector<Rule> selu_rules() {
  const Pattern x = any("x");
  const Pattern below = node(op::subtract, {node(op::exp, {node(op::minimum, {x, scalar(0)})}), scalar(1)});
  const Pattern sum = commuted(op::add, node(op::maximum, {x, scalar(0)}),
                               commuted(op::multiply, below, scalar(kAlpha)));
  return {{commuted(op::multiply, sum, scalar(kScale)), [](const Builder& build, const Match& m) {
             ActivationAttrs attrs;
             attrs.alpha = kAlpha;
             attrs.gamma = kScale;
             return build(nn::selu, {m["x"]}, attrs);
           }}};
}

bool runs(const char* what, const Graph& graph) {
  CompileOptions options;
  options.targets = {find_target("native")};
  size_t kernels = 0;
  options.observer.lowered = [&](const LoweredProgram& program, const Target&) { kernels = program.kernels.size(); };
  ModuleFile module = compile_graph(graph, options);
  LoadedProgram program = load(module, options.targets[0]);
  auto values = example::random_values(kCount, 1);
  for (float& v : values) v *= 5;
  const ConstantPtr result = program.run({example::tensor({kCount}, values)}).at(0);
  std::vector<double> reference;
  for (double v : values) reference.push_back(kScale * (v > 0 ? v : kAlpha * std::expm1(v)));
  std::printf("%zu kernel\n", kernels);
  return example::agrees(what, *result, reference) && kernels == 1;
}

bool work() {
  Graph graph = selu();
  std::printf("%s\n", print(graph, op_set()).c_str());
  const bool composed = runs("composed", graph);
  PassContext context;
  apply_rules(Rewriter(graph.main, context), selu_rules());
  find_pass("dead_code")->run(graph, context);
  std::printf("--- with the rule, which met it %lld time\n%s\n", static_cast<long long>(context.rewrites),
              print(graph, op_set()).c_str());
  return runs("recognised", graph) && composed && context.rewrites == 1;
}

}  // namespace

int main() {
  return example::run(work);
}
