// A schedule found by trying a space: tiles of a matrix product, each built, checked and timed on this machine, beside
// what the target's own rule chooses.
#include "check.h"

using namespace gantry;

namespace {

constexpr int64_t kM = 128, kN = 128, kK = 128;

struct Product {
  Tensor a = placeholder({kM, kK}, DType::kF32, "a"), b = placeholder({kK, kN}, DType::kF32, "b"), c;
  IterVarPtr k = reduce_axis(0, kK, "k");

  Product() {
    c = compute(
        {kM, kN}, [&](const auto& i) { return sum(a({i[0], k->var}) * b({k->var, i[1]}), {k}); }, "c");
  }
};

/// Tiles of `rows` by `columns` results in registers.
Schedule tiled(const Product& product, int64_t rows, int64_t columns) {
  Schedule schedule({product.c});
  const Tensor sums = schedule.cache_write(product.c, StorageScope::kLocal);
  Stage& out = schedule[product.c];
  const auto [row, column, row_in_tile, column_in_tile] = out.tile(out.axes()[0], out.axes()[1], rows, columns);
  out.unroll(row_in_tile);
  out.vectorize(column_in_tile);
  Stage& stage = schedule[sums];
  stage.compute_at(out, column);
  stage.reorder({stage.reduce_axes()[0], stage.axes()[0], stage.axes()[1]});
  stage.unroll(stage.axes()[0]);
  stage.vectorize(stage.axes()[1]);
  return schedule;
}

bool work() {
  const Product product;
  const Target target = find_target("native");
  const auto a = example::random_values(kM * kK, 1), b = example::random_values(kK * kN, 2);
  const std::vector<ConstantPtr> inputs{example::tensor({kM, kK}, a), example::tensor({kK, kN}, b)};
  std::vector<double> reference;
  for (size_t m = 0; m < kM; ++m)
    for (size_t n = 0; n < kN; ++n) {
      double total = 0;
      for (size_t k = 0; k < kK; ++k) total += double{a[m * kK + k]} * b[k * kN + n];
      reference.push_back(total);
    }
  bool good = true;
  const auto timed = [&](const std::string& what, const Schedule& schedule) {
    ModuleFile module = build({product.a, product.b}, schedule, target, "product");
    LoadedProgram program = load(module, target);
    good = example::agrees(what, *program.run(inputs).at(0), reference) && good;
    return program.fastest_ms(inputs, 50);
  };
  std::string best;
  double best_ms = INFINITY;
  for (const int64_t rows : {1, 2, 4, 8})
    for (const int64_t columns : {8, 16, 32}) {
      const std::string what = std::to_string(rows) + " x " + std::to_string(columns);
      const double ms = timed(what, tiled(product, rows, columns));
      std::printf("  %.4f ms, %.1f GFLOP/s\n", ms, 2e-6 * kM * kN * kK / ms);
      if (ms < best_ms) best_ms = ms, best = what;
    }
  std::printf("best: %s, %.4f ms\n", best.c_str(), best_ms);
  std::printf("the target's rule: %.4f ms\n", timed("rule", make_schedule({product.c}, target)));
  return good;
}

}  // namespace

int main() {
  return example::run(work);
}
