// Softmax and normalisations along trailing axes: everything of a row where the row is in a cache of the
// core.
//
//   parallel for row
//     maximum, sums, … over the row          lanes over the reduction, several vectors of accumulators
//     intermediate rows in a local buffer
//     y[row][:] = …
#include <algorithm>

#include "host/costs/tile_model.h"
#include "host/graph/shape_guess.h"
#include "host/targets/common/kernel_rules.h"
#include "host/targets/cpu/rules.h"

namespace gantry::cpu {
namespace {

/// A row of an intermediate stage is kept up to this: beside it a row of the data and one of the result pass.
int64_t most_row_bytes(const Target& target) {
  return std::max<int64_t>(target.machine.l2_bytes / 3, 32 << 10);
}

bool keeps_prefix(const OperationNode& op, const OperationNode& output, size_t rows) {
  if (op.axes.size() < rows || output.axes.size() < rows) return false;
  for (size_t i = 0; i < rows; ++i) {
    if (!structurally_equal(op.axes[i]->extent, output.axes[i]->extent)) return false;
  }
  return true;
}

using Operations = std::vector<const OperationNode*>;

bool contains(const Operations& ops, const OperationNode* op) {
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

/// Every read of an operation of `of_rows` uses the reader's own leading axes in order; sets `reads` if there
/// is one.
bool reads_own_row(const OperationNode& reader, const Operations& of_rows, size_t rows, bool& reads) {
  bool own = true;
  walk(reader.body, [&](const Expr& node) {
    const auto* read = node.as<ReadNode>();
    if (!read || !contains(of_rows, read->op.get())) return;
    reads = true;
    own = own && reader.axes.size() >= rows && read->indices.size() >= rows;
    for (size_t i = 0; own && i < rows; ++i) own = is_index_of(read->indices[i], *reader.axes[i]);
  });
  return own;
}

/// The stages of a row: reductions to one element a row, and what they need for every element of it.
struct RowStages {
  size_t rows = 0;  ///< leading axes that count rows
  std::vector<Stage*> stages;
};

bool fits_row_buffer(const OperationNode& op, size_t rows, const Target& target) {
  std::vector<IterVarPtr> row(op.axes.begin() + static_cast<long>(rows), op.axes.end());
  const auto elements = constant_volume(row);
  return elements && *elements * byte_width(op.result_dtypes[0]) <= most_row_bytes(target);
}

/// Costly elements that several stages read (the powers of a softmax) are computed once, into a buffer.
bool worth_keeping(const Schedule& schedule, const OperationNode& op) {
  constexpr int kCostly = 12;
  return element_cost(op.body) >= kCostly && readers_of(schedule, op).size() >= 2;
}

/// Empty where the schedule is no computation by rows.
RowStages find_rows(Schedule& schedule, const Stage& output, const Target& target) {
  RowStages found;
  Operations of_rows;  ///< reductions, and what depends on them
  for (const auto& stage : schedule.stages()) {
    const OperationNode& op = *stage->op();
    if (op.kind == OperationNode::Kind::kPlaceholder) continue;
    if (!is_compute(op)) return {};
    bool reads = false;
    if (!reads_own_row(op, of_rows, found.rows, reads)) return {};
    if (is_reduction(op)) {
      if (op.reduce_axes.empty()) return {};
      if (of_rows.empty()) found.rows = op.axes.size();
      const bool last =
          op.axes.size() == found.rows && found.rows >= 1 && found.rows < output.op()->axes.size();
      if (!last || read_stride(op, op.reduce_axes.back()->var) != std::optional<int>(1)) return {};
    }
    if (is_reduction(op) || reads) of_rows.push_back(&op);
    const bool inlined = stage->attachment().is_inline();
    if (stage.get() == &output || (inlined && !(reads && worth_keeping(schedule, op)))) continue;
    if (inlined && !fits_row_buffer(op, found.rows, target)) continue;
    // What comes before the first reduction stays where it is: it is no part of a row.
    if (!contains(of_rows, &op) || !keeps_prefix(op, *output.op(), found.rows)) return {};
    if (!is_reduction(op) && !fits_row_buffer(op, found.rows, target)) return {};
    found.stages.push_back(stage.get());
  }
  return found;
}

int lanes_of(const IterVarPtr& axis, const OperationNode& op, const Target& target) {
  return costs::choose_lanes(constant_extent(axis->extent).value_or(guess::kLong),
                             byte_width(op.result_dtypes[0]), target.machine);
}

void schedule_row_reduction(Stage& stage, const Target& target) {
  const IterVarPtr axis = stage.reduce_axes().back();
  const int lanes = lanes_of(axis, *stage.op(), target);
  if (lanes <= 1) return;
  auto [outer, inner] = stage.split(axis, lanes_at_once(axis, lanes), TailStrategy::kGuard);
  (void)outer;
  stage.vectorize(inner);
}

void schedule_row_elements(Stage& stage, const Target& target) {
  const IterVarPtr axis = stage.axes().back();
  const int lanes = lanes_of(axis, *stage.op(), target);
  if (lanes <= 1) return;
  auto [outer, inner] = stage.split(axis, lanes, tail_for(axis, lanes));
  (void)outer;
  stage.vectorize(inner);
}

bool schedule_rows(Schedule& schedule, const Target& target) {
  if (schedule.outputs().size() != 1) return false;
  Stage& output = schedule[schedule.outputs()[0]];
  if (!is_compute(*output.op()) || is_reduction(*output.op()) || output.axes().empty()) return false;
  const bool reduces = std::any_of(schedule.stages().begin(), schedule.stages().end(),
                                   [](const auto& stage) { return is_reduction(*stage->op()); });
  if (!reduces || read_stride(*output.op(), output.axes().back()->var) == std::nullopt) return false;
  inline_elementwise(schedule);
  const RowStages found = find_rows(schedule, output, target);
  if (found.stages.empty()) return false;
  const auto axes = output.axes();
  const auto volume = constant_volume(axes);
  const bool worth_it = !volume || *volume * 8 >= kParallelThreshold;
  IterVarPtr row =
      fuse_and_parallelize(output, {axes.begin(), axes.begin() + static_cast<long>(found.rows)}, worth_it);
  schedule_row_elements(output, target);
  for (Stage* stage : found.stages) {
    stage->compute_at(output, row);
    stage->set_scope(StorageScope::kLocal);
    if (is_reduction(*stage->op())) {
      schedule_row_reduction(*stage, target);
    } else {
      schedule_row_elements(*stage, target);
    }
  }
  return true;
}

}  // namespace

std::optional<Schedule> rows_rule(const std::vector<Tensor>& outputs, const Target& target) {
  Schedule schedule(outputs);
  if (!schedule_rows(schedule, target)) return std::nullopt;
  return schedule;
}

}  // namespace gantry::cpu
