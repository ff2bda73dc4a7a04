// Sums of many positions into few, as the mean over an image or its variance, in two steps: parts of the
// positions in parallel, then the parts. Threads share out positions, as what computed the data did, so that
// each finds its part in its own cache; sharing out channels, each would fetch half of every row from the
// other's.
//
//   parallel for part
//     for block of channels: for position of the part: acc[channels] += x     in registers
//     partial[part][channels] = acc
//   for block of channels: sum over the parts
#include <algorithm>
#include <array>

#include "host/costs/tile_model.h"
#include "host/targets/common/rewrite.h"
#include "host/targets/cpu/rules.h"
#include "host/targets/cpu/sum_of_parts.h"

namespace gantry::cpu {
namespace {

// Results apart from those of the vectorised axis: with many there is enough to share out.
constexpr int64_t kFewRows = 24, kLeastPositions = 48;
constexpr int64_t kMaxVectors = 8;

/// How many parts divide `extent` evenly, 1 if none do.
int64_t parts_of(int64_t extent) {
  constexpr std::array<int64_t, 6> kWanted{4, 2, 6, 3, 7, 5};
  for (int64_t parts : kWanted)
    if (extent % parts == 0) return parts;
  return 1;
}

/// All that is read lies along the last axis of the result as the result does.
bool reads_along_last_axis(const OperationNode& op) {
  const Expr& last = op.axes.back()->var;
  bool found = false, along = true;
  walk(op.body, [&](const Expr& e) {
    const auto* read = e.as<ReadNode>();
    if (!read || !mentions(e, last)) return;
    found = true;
    along = along && read->indices.back().same_as(last);
  });
  return found && along;
}

bool is_long_sum(const OperationNode& op) {
  const auto* root = op.body ? op.body.as<ReduceNode>() : nullptr;
  if (!root || root->reduce != ReduceKind::kSum || static_cast<bool>(root->condition) || op.axes.empty() ||
      op.role != Role::kReduction)
    return false;
  const auto rows = constant_volume({op.axes.begin(), op.axes.end() - 1});
  const auto channels = constant_extent(op.axes.back()->extent);
  const auto positions = constant_volume(op.reduce_axes);
  return rows && channels && positions && *rows < kFewRows && *positions >= kLeastPositions &&
         *rows * *channels * *positions >= kParallelThreshold &&
         parts_of(*constant_extent(op.reduce_axes.front()->extent)) > 1 && reads_along_last_axis(op);
}

Tensor in_two_steps(const OperationNode& op) {
  const int64_t parts = parts_of(*constant_extent(op.reduce_axes.front()->extent));
  const Tensor partial = partial_sums(op, parts, op.name + "_part", Role::kPartialSum);
  auto total = [&](const std::vector<Expr>& index) {
    const IterVarPtr p = reduce_axis(0, parts, "part");
    std::vector<Expr> at{p->var};
    at.insert(at.end(), index.begin(), index.end());
    return sum(partial(at), {p});
  };
  return compute(op.result_shapes[0], total, op.name);
}

}  // namespace

std::vector<Tensor> split_long_sums(const std::vector<Tensor>& outputs) {
  std::vector<Tensor> rewritten = outputs;
  // One by one: a variance reads the mean.
  for (;;) {
    const std::vector<Operation> ops = topological_order(rewritten);
    const auto found =
        std::ranges::find_if(ops, [](const Operation& op) { return is_compute(*op) && is_long_sum(*op); });
    if (found == ops.end()) return rewritten;
    rewritten = replace_tensors(rewritten, {{found->get(), in_two_steps(**found)}});
  }
}

bool is_partial_sum(const OperationNode& op) {
  return op.role == Role::kPartialSum;
}

void schedule_partial_sum(Schedule& schedule, Stage& stage, const Target& target) {
  const Operation op = stage.op();
  Stage& sums = schedule[schedule.cache_write(Tensor(op, 0), StorageScope::kLocal)];
  const auto axes = stage.axes();
  const int64_t channels = *constant_extent(axes.back()->extent);
  const int lanes = costs::choose_lanes(channels, byte_width(op->result_dtypes[0]), target.machine);
  const int64_t block = std::clamp<int64_t>(channels / lanes, 1, kMaxVectors) * lanes;
  auto [outer, inner] = stage.split(axes.back(), block, tail_for(axes.back(), block));
  fuse_and_parallelize(stage, {axes.begin(), axes.end() - 1}, true);
  vectorize_block(stage, inner, block, lanes);
  sums.compute_at(stage, outer);
  sums.set_scope(StorageScope::kLocal);
  const auto results = sums.axes(), reduced = sums.reduce_axes();
  std::vector<IterVarPtr> order(results.begin(), results.end() - 1);
  order.insert(order.end(), reduced.begin(), reduced.end());
  order.push_back(results.back());
  sums.reorder(order);
  vectorize_block(sums, results.back(), block, lanes);
}

}  // namespace gantry::cpu
