// Elementwise, broadcasting and data-movement stages.
#include "host/target/cpu/rules.h"
#include "host/target/cpu/tile_model.h"

namespace gantry::cpu {
namespace {

// Iterations of a parallel chunk when a stage is flattened to one axis.
constexpr int64_t kFlatChunkVectors = 64;

// One flat axis: parallel chunks of vectors.
void schedule_flat(Stage& stage, int lanes, bool worth_it) {
  IterVarPtr flat = fuse_and_parallelize(stage, stage.axes(), false);
  if (lanes <= 1) return;
  auto [outer, inner] = stage.split(flat, lanes, TailStrategy::kGuard);
  stage.vectorize(inner);
  if (!worth_it) return;
  auto [chunk, vector] = stage.split(outer, kFlatChunkVectors, TailStrategy::kGuard);
  (void)vector;
  stage.parallel(chunk);
}

}  // namespace

void schedule_elementwise(Stage& stage, const Target& target) {
  const OperationNode& op = *stage.op;
  if (op.axes.empty()) return;
  auto volume = constant_volume(op.axes);
  bool worth_it = !volume || *volume * (1 + element_cost(op.body)) >= kParallelThreshold * 4;
  int bytes = byte_width(op.result_dtypes[0]);
  if (op.axes.size() == 1 || reads_same_index(op)) {
    int lanes = choose_lanes(volume.value_or(int64_t{1} << 30), bytes, target.machine);
    schedule_flat(stage, lanes, worth_it);
    return;
  }
  const auto axes = stage.axes();
  auto last = constant_extent(axes.back()->extent);
  int lanes = choose_lanes(last.value_or(int64_t{1} << 30), bytes, target.machine);
  std::vector<IterVarPtr> outer(axes.begin(), axes.end() - 1);
  fuse_and_parallelize(stage, outer, worth_it);
  if (lanes <= 1) return;
  auto [vectors, lane] = stage.split(axes.back(), lanes, tail_for(axes.back(), lanes));
  (void)vectors;
  stage.vectorize(lane);
}

}  // namespace gantry::cpu
