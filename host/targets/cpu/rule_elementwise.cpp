// Elementwise, broadcasting and data-movement stages.
#include <algorithm>

#include "host/costs/tile_model.h"
#include "host/graph/shape_guess.h"
#include "host/targets/cpu/rules.h"

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

// Side of a transposed block at most, whose rows are held in registers: so many cache lines are read, and
// used whole before they leave.
constexpr int64_t kMaxTransposeSide = 16;
// Blocks that follow each other along the reads and along the writes before either goes on: two cache lines
// of what is read lie side by side, and four of what is written. Measured beside other orders on six shapes
// of 3 to 60 MB.
constexpr int64_t kTransposeRun = 2, kTransposeWriteRun = 4;

// Where reads are not contiguous along the last axis: the axis along which all of those are, if there is one.
// The others may be read as they are.
IterVarPtr transposed_axis(const OperationNode& op) {
  std::vector<Expr> turned;
  walk(op.body, [&](const Expr& e) {
    if (e.as<ReadNode>() && !read_stride(e, op.axes.back()->var)) turned.push_back(e);
  });
  if (turned.empty()) return nullptr;
  for (size_t i = 0; i + 1 < op.axes.size(); ++i) {
    auto extent = constant_extent(op.axes[i]->extent);
    if (extent && *extent < 4) continue;
    const bool contiguous = std::ranges::all_of(turned, [&](const Expr& read) {
      return read_stride(read, op.axes[i]->var) == std::optional<int>(1);
    });
    if (contiguous) return op.axes[i];
  }
  return nullptr;
}

// Square blocks of both axes, which host/loops/transpose_blocks.cpp turns: neither the reads nor the writes
// stride through memory for long.
void schedule_transposed(Stage& stage, const IterVarPtr& contiguous, int lanes, bool worth_it) {
  const auto axes = stage.axes();
  int64_t side = std::min<int64_t>(lanes, kMaxTransposeSide);
  while (side > 4 && constant_extent(contiguous->extent).value_or(side) < side) side /= 2;
  const int64_t rows = side < 4 ? kMaxTransposeSide : side;  // fewer lanes are no block
  auto [row_outer, row_inner] = stage.split(contiguous, rows, tail_for(contiguous, rows));
  auto [lane_outer, lane] = stage.split(axes.back(), side, tail_for(axes.back(), side));
  std::vector<IterVarPtr> outer;
  auto [row_run, row] = stage.split(row_outer, side < 4 ? 1 : kTransposeRun);
  auto [lane_run, vector] = stage.split(lane_outer, side < 4 ? 1 : kTransposeWriteRun);
  for (size_t i = 0; i + 1 < axes.size(); ++i) outer.push_back(axes[i] == contiguous ? row_run : axes[i]);
  std::vector<IterVarPtr> order = outer;
  order.insert(order.end(), {lane_run, row, vector, row_inner, lane});
  stage.reorder(order);
  stage.vectorize(lane);
  fuse_and_parallelize(stage, outer, worth_it);
}

/// Reads of inlined stages replaced by their bodies.
class InlinedBody : public ExprMutator {
 public:
  explicit InlinedBody(const Schedule& schedule) : schedule_(schedule) {}

 protected:
  Expr mutate_read(const ReadNode* node, const Expr& self) override {
    Expr read = ExprMutator::mutate_read(node, self);
    const Stage* stage = schedule_.find(node->op.get());
    if (!stage || !stage->attachment().is_inline()) return read;
    std::vector<std::pair<const VarNode*, Expr>> bindings;
    for (size_t i = 0; i < stage->op()->axes.size(); ++i)
      bindings.emplace_back(stage->op()->axes[i]->var.as<VarNode>(), read.as<ReadNode>()->indices[i]);
    return mutate(substitute(stage->op()->body, bindings));
  }

 private:
  const Schedule& schedule_;
};

// The body chooses by where on the last axis it is, and on nothing else.
bool chooses_along_last_axis(const OperationNode& op) {
  const Expr& last = op.axes.back()->var;
  bool found = false;
  walk(op.body, [&](const Expr& e) {
    const auto* node = e.as<CallNode>();
    if (!node || node->fn != MathFn::kIfThenElse) return;
    const auto* test = node->args[0].as<BinaryNode>();
    found = found || (test && test->op == BinaryOp::kLt && test->a.same_as(last) && constant_extent(test->b));
  });
  return found;
}

// A row at a time, its vectors in a loop.
void schedule_rows(Stage& stage, int lanes, bool worth_it) {
  const auto axes = stage.axes();
  std::vector<IterVarPtr> outer(axes.begin(), axes.end() - 1);
  fuse_and_parallelize(stage, outer, worth_it);
  if (lanes <= 1) return;
  auto [vectors, lane] = stage.split(axes.back(), lanes, tail_for(axes.back(), lanes));
  (void)vectors;
  stage.vectorize(lane);
}

/// Rows of at most so many elements are written out one by one.
constexpr int64_t kMaxWrittenOut = 256;

/// Where along the last axis elements come from is computed from their place in ways that no stride says
/// (resizing by an uneven ratio): once the row is written out, it is known.
bool reads_by_table(const OperationNode& op) {
  const Expr& last = op.axes.back()->var;
  const auto extent = constant_extent(op.axes.back()->extent);
  if (!extent || *extent > kMaxWrittenOut) return false;
  bool found = false, other = false;
  walk(op.body, [&](const Expr& e) {
    const auto* read = e.as<ReadNode>();
    if (!read) return;
    for (const Expr& index : read->indices) {
      bool rounds = false;
      walk(index, [&](const Expr& part) {
        other = other || part.as<ReadNode>() != nullptr;
        rounds = rounds || (part.as<CastNode>() != nullptr && mentions(part, last.as<VarNode>()));
      });
      found = found || rounds;
    }
  });
  return found && !other;
}

// A row at a time, its elements one by one.
void schedule_written_out(Stage& stage, bool worth_it) {
  const auto axes = stage.axes();
  fuse_and_parallelize(stage, {axes.begin(), axes.end() - 1}, worth_it);
  stage.unroll(axes.back());
}

bool worth_threads(const OperationNode& op) {
  auto volume = constant_volume(op.axes);
  return !volume || *volume * (1 + element_cost(op.body)) >= kParallelThreshold * 4;
}

int lanes_along_last_axis(const OperationNode& op, const Target& target) {
  auto last = constant_extent(op.axes.back()->extent);
  return costs::choose_lanes(last.value_or(guess::kLong), byte_width(op.result_dtypes[0]), target.machine);
}

/// Once the axes are one, where an element is read from is a remainder of extents that only a run knows,
/// which a vector divides by one lane at a time.
bool divides_by_open_extents(const OperationNode& op) {
  const bool open = std::any_of(op.axes.begin() + 1, op.axes.end(),
                                [](const IterVarPtr& axis) { return !constant_extent(axis->extent); });
  return open && !reads_same_index(op);
}

/// Of a flattened stage: elements of vectors that divide, of which more take LLVM's register allocator
/// minutes.
constexpr int kLeastDividingBytes = 4;

/// `least_bytes`: what an element counts as at least where vectors of a flattened stage are chosen.
void schedule_by_own_reads(Stage& stage, const Target& target, int least_bytes) {
  const OperationNode& op = *stage.op();
  if (op.axes.empty()) return;
  const bool worth_it = worth_threads(op);
  if (op.axes.size() == 1 || reads_same_index(op)) {
    auto volume = constant_volume(op.axes);
    int bytes = std::max(least_bytes, byte_width(op.result_dtypes[0]));
    schedule_flat(stage, costs::choose_lanes(volume.value_or(guess::kLong), bytes, target.machine), worth_it);
    return;
  }
  const int lanes = lanes_along_last_axis(op, target);
  if (IterVarPtr contiguous = lanes > 1 ? transposed_axis(op) : nullptr) {
    schedule_transposed(stage, contiguous, lanes, worth_it);
    return;
  }
  if (reads_by_table(op)) return schedule_written_out(stage, worth_it);
  schedule_rows(stage, lanes, worth_it);
}

}  // namespace

void schedule_elementwise(Stage& stage, const Target& target) {
  schedule_by_own_reads(stage, target, 1);
}

void schedule_elementwise(const Schedule& schedule, Stage& stage, const Target& target) {
  if (stage.op()->axes.empty() || !stage.op()->body) return;
  OperationNode whole = *stage.op();
  whole.body = InlinedBody(schedule).mutate(whole.body);
  const int lanes = lanes_along_last_axis(whole, target);
  if (whole.axes.size() > 1 && lanes > 1) {
    if (chooses_along_last_axis(whole)) return schedule_rows(stage, lanes, worth_threads(whole));
    if (IterVarPtr contiguous = transposed_axis(whole))
      return schedule_transposed(stage, contiguous, lanes, worth_threads(whole));
  }
  schedule_by_own_reads(stage, target, divides_by_open_extents(whole) ? kLeastDividingBytes : 1);
}

}  // namespace gantry::cpu
