// An op with a loop nest of its own: a running maximum, which no tensor expression says, since each element depends on
// the one before. It is declared like gantry's own ops, and stands in a graph beside them.
#include "check.h"
#include "host/loops/stmt.h"
#include "host/ops/elementwise.h"
#include "host/ops/support.h"

using namespace gantry;

namespace {

/// running_max(x): along the last axis.
constexpr Op<NoAttrs> kRunningMax{"example.running_max"};

/// A row a thread of the pool; the maximum so far in a register.
void running_max(LoopBuilder& b, const Expr& rows, const Expr& columns) {
  const auto row = [&](const Expr& r) {
    const Buffer best = b.local("best", DType::kF32, 1);
    b.emit(store(best, 0, float_imm(DType::kF32, -INFINITY)));
    b.loop("c", columns, [&](const Expr& c) {
      const Expr at = r * columns + c;
      b.emit(store(best, 0, max(load(best, 0), load(b.input(0), at))));
      b.emit(store(b.result(0), at, load(best, 0)));
    });
  };
  b.loop("r", rows, row, LoopKind::kParallel);
}

OpDef declaration() {
  OpDef def = ops::define(kRunningMax, FusionClass::kOpaque, LayoutBehaviour::kNone, {"x"});
  def.infer = [](const Node& node, Function& function) {
    ops::require_float(node, 0);
    ops::require(ops::input_type(node, 0).rank() == 2, "the data must be rows, not {}", ops::input_type(node, 0).str());
    return ops::same_as_first(node, function);
  };
  def.compute = [](const Node&, const std::vector<Tensor>& in) {
    const Expr rows = in[0].shape()[0], columns = in[0].shape()[1];
    return extern_kernel({in[0]}, {in[0].shape()}, {in[0].dtype()},
                         [=](LoopBuilder& b) { running_max(b, rows, columns); }, "running_max");
  };
  return def;
}

bool work() {
  constexpr int64_t kRows = 7, kColumns = 300;
  static const OpDef running_max_op = declaration();
  Graph graph{"example", Function("main")};
  Value* x = graph.main.add_parameter("x", {DType::kF32, {kRows, kColumns}});
  const Builder build(graph.main, {"example"});
  Value* doubled = build(op::add, {x, x});
  Value* best = build.add(running_max_op, nullptr, {doubled})->result();
  graph.main.outputs = {build(op::exp, {best})};
  graph.main.output_names = {"y"};

  CompileOptions options;
  options.targets = {find_target("native")};
  options.observer.loop_pass = [](std::string_view step, const LoopKernel& kernel) {
    if (step == "build_nests") std::printf("%s\n", to_string(kernel).c_str());
  };
  ModuleFile module = compile_graph(graph, options);
  LoadedProgram program = load(module, options.targets[0], 2);
  const auto values = example::random_values(kRows * kColumns, 1);
  const ConstantPtr result = program.run({example::tensor({kRows, kColumns}, values)}).at(0);
  std::vector<double> reference;
  for (size_t r = 0; r < kRows; ++r) {
    double so_far = -INFINITY;
    for (size_t c = 0; c < kColumns; ++c) {
      so_far = std::max(so_far, 2.0 * values[r * kColumns + c]);
      reference.push_back(std::exp(so_far));
    }
  }
  return example::agrees("running maximum", *result, reference);
}

}  // namespace

int main() {
  return example::run(work);
}
