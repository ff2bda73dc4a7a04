// Instance normalisation as tensor expressions, with a schedule of its own for CPUs and one for GPUs. The GPU's runs
// on the emulated one, which every machine has; with a GPU, pass its target as the argument: cuda:sm_90.
#include "check.h"

using namespace gantry;

namespace {

constexpr int64_t kPlanes = 12, kPixels = 1000;

struct InstanceNorm {
  Tensor x = placeholder({kPlanes, kPixels}, DType::kF32, "x");
  Tensor mean, variance, y;

  InstanceNorm() {
    const Expr count = float_imm(DType::kF32, static_cast<double>(kPixels));
    const IterVarPtr i = reduce_axis(0, kPixels, "i"), j = reduce_axis(0, kPixels, "j");
    Tensor total = compute(
        {kPlanes}, [&](const auto& p) { return sum(x({p[0], i->var}), {i}); }, "total");
    mean = total;
    Tensor squares = compute(
        {kPlanes},
        [&](const auto& p) {
          const Expr d = x({p[0], j->var}) - total(p) / count;
          return sum(d * d, {j});
        },
        "squares");
    variance = squares;
    y = compute(
        {kPlanes, kPixels},
        [&](const auto& at) {
          const Expr d = x(at) - total({at[0]}) / count;
          return d * call(MathFn::kRsqrt, {squares({at[0]}) / count + float_imm(DType::kF32, 1e-5)});
        },
        "y");
  }
};

/// A plane a thread of the pool; vectors along the pixels, the sums with a lane each.
Schedule for_cpus(const InstanceNorm& norm) {
  Schedule schedule({norm.y});
  Stage& out = schedule[norm.y];
  const IterVarPtr plane = out.axes()[0];
  out.vectorize(out.split(out.axes()[1], 8).second);
  out.parallel(plane);
  for (const Tensor& sums : {norm.mean, norm.variance}) {
    Stage& stage = schedule[sums];
    stage.set_scope(StorageScope::kLocal);
    stage.compute_at(out, plane);
    stage.vectorize(stage.split(stage.reduce_axes()[0], 8).second);
  }
  return schedule;
}

/// A plane a block of 128 threads, which sum a part each and put their sums together.
Schedule for_gpus(const InstanceNorm& norm) {
  constexpr int64_t kThreads = 128;
  Schedule schedule({norm.y});
  schedule.for_gpu = true;
  Stage& out = schedule[norm.y];
  const IterVarPtr plane = out.axes()[0];
  out.bind(plane, LoopKind::kBlock);
  const auto [step, thread] = out.split(out.axes()[1], kThreads);
  out.reorder({plane, thread, step});
  out.bind(thread, LoopKind::kThread);
  for (const Tensor& sums : {norm.mean, norm.variance}) {
    Stage& stage = schedule[sums];
    stage.set_scope(StorageScope::kShared);
    stage.compute_at(out, plane);
    stage.bind(stage.split(stage.reduce_axes()[0], kThreads).second, LoopKind::kThread);
  }
  return schedule;
}

std::vector<double> reference(const std::vector<float>& x) {
  std::vector<double> result;
  for (size_t p = 0; p < kPlanes; ++p) {
    const float* plane = x.data() + p * kPixels;
    double mean = 0, variance = 0;
    for (size_t i = 0; i < kPixels; ++i) mean += plane[i] / double{kPixels};
    for (size_t i = 0; i < kPixels; ++i) variance += (plane[i] - mean) * (plane[i] - mean) / double{kPixels};
    for (size_t i = 0; i < kPixels; ++i) result.push_back((plane[i] - mean) / std::sqrt(variance + 1e-5));
  }
  return result;
}

bool runs(const InstanceNorm& norm, const Schedule& schedule, const Target& target) {
  std::printf("--- %s\n%s\n", target.name.c_str(),
              to_string(run_loop_passes(lower_schedule(schedule, {norm.x}, "instance_norm"))).c_str());
  ModuleFile module = build({norm.x}, schedule, target, "instance_norm");
  LoadedProgram program = load(module, target, 2);
  const auto values = example::random_values(kPlanes * kPixels, 1);
  const ConstantPtr result = program.run({example::tensor({kPlanes, kPixels}, values)}).at(0);
  return example::agrees("instance normalisation on " + target.name, *result, reference(values));
}

}  // namespace

int main(int argc, char** argv) {
  return example::run([&] {
    const InstanceNorm norm;
    const bool cpu = runs(norm, for_cpus(norm), find_target("native"));
    return runs(norm, for_gpus(norm), find_target(argc > 1 ? argv[1] : "cuda-emulated:sm_80")) && cpu;
  });
}
