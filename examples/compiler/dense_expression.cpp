// A dense layer with bias and ReLU as tensor expressions, scheduled, printed as a loop nest, built and run.
#include "check.h"

using namespace gantry;

namespace {

constexpr int64_t kRows = 64, kDepth = 256, kUnits = 128;

bool work() {
  // What: y[r, u] = max(bias[u] + sum over k of x[r, k] * w[k, u], 0)
  Tensor x = placeholder({kRows, kDepth}, DType::kF32, "x"), w = placeholder({kDepth, kUnits}, DType::kF32, "w"),
         bias = placeholder({kUnits}, DType::kF32, "bias");
  const IterVarPtr k = reduce_axis(0, kDepth, "k");
  Tensor product = compute(
      {kRows, kUnits}, [&](const auto& i) { return sum(x({i[0], k->var}) * w({k->var, i[1]}), {k}); }, "product");
  Tensor y = compute(
      {kRows, kUnits}, [&](const auto& i) { return max(product(i) + bias({i[1]}), float_imm(DType::kF32, 0)); }, "y");

  // How: tiles of 4 rows by 16 units, whose sums stay in registers, tiles of rows on the threads.
  Schedule schedule({y});
  Stage& out = schedule[y];
  const auto [row, unit, row_in_tile, unit_in_tile] = out.tile(out.axes()[0], out.axes()[1], 4, 16);
  out.vectorize(unit_in_tile);
  out.unroll(row_in_tile);
  out.parallel(row);
  Stage& sums = schedule[product];
  sums.set_scope(StorageScope::kLocal);
  sums.compute_at(out, unit);
  sums.reorder({k, sums.axes()[0], sums.axes()[1]});
  sums.unroll(sums.axes()[0]);
  sums.vectorize(sums.axes()[1]);

  const LoopKernel kernel = run_loop_passes(lower_schedule(schedule, {x, w, bias}, "dense"));
  std::printf("%s\n", to_string(kernel).c_str());

  const Target target = find_target("native");
  ModuleFile module = build({x, w, bias}, schedule, target, "dense");
  LoadedProgram program = load(module, target, 2);
  const auto x_values = example::random_values(kRows * kDepth, 1), w_values = example::random_values(kDepth * kUnits, 2),
             b_values = example::random_values(kUnits, 3);
  const ConstantPtr result = program
                                 .run({example::tensor({kRows, kDepth}, x_values),
                                       example::tensor({kDepth, kUnits}, w_values), example::tensor({kUnits}, b_values)})
                                 .at(0);
  std::vector<double> reference;
  for (size_t r = 0; r < kRows; ++r)
    for (size_t u = 0; u < kUnits; ++u) {
      double total = b_values[u];
      for (size_t i = 0; i < kDepth; ++i) total += double{x_values[r * kDepth + i]} * w_values[i * kUnits + u];
      reference.push_back(std::max(total, 0.0));
    }
  return example::agrees("dense layer", *result, reference);
}

}  // namespace

int main() {
  return example::run(work);
}
