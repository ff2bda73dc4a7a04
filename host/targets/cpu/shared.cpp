#include "host/graph/shape_guess.h"
#include "host/targets/cpu/rules.h"

#include <algorithm>
#include <limits>

#include "host/loops/loop_limits.h"
#include "host/support/divide.h"
#include "host/tensor/padding.h"

namespace gantry::cpu {

IterVarPtr fuse_and_parallelize(Stage& stage, std::vector<IterVarPtr> axes, bool worth_it, int64_t rounds) {
  if (axes.empty()) return nullptr;
  IterVarPtr fused = axes.front();
  for (size_t i = 1; i < axes.size(); ++i) fused = stage.fuse(fused, axes[i]);
  if (worth_it) stage.parallel(fused, rounds);
  return fused;
}

TailStrategy tail_for(const IterVarPtr& axis, int64_t factor) {
  auto extent = constant_extent(axis->extent);
  if (!extent) return TailStrategy::kShiftOrGuard;
  return *extent >= factor ? TailStrategy::kShiftInwards : TailStrategy::kGuard;
}

TailStrategy tail_of_rows(const IterVarPtr& axis, int64_t rows) {
  if (!constant_extent(axis->extent) && rows <= kMostRowVersions) return TailStrategy::kGuard;
  return tail_for(axis, rows);
}

int64_t lanes_at_once(const IterVarPtr& reduced, int64_t lanes) {
  constexpr int64_t kVectors = 4;
  const auto extent = constant_extent(reduced->extent);
  return extent && *extent >= 2 * kVectors * lanes ? kVectors * lanes : lanes;
}

void vectorize_block(Stage& stage, const IterVarPtr& axis, int64_t block, int lanes) {
  if (lanes <= 1) return;
  if (block == lanes) {
    stage.vectorize(axis);
    return;
  }
  auto [vectors, lane] = stage.split(axis, lanes);
  stage.unroll(vectors);
  stage.vectorize(lane);
}

bool sums_halves(const OperationNode& product, const Target& target) {
  const auto* root = product.body.as<ReduceNode>();
  const auto* term = root ? root->value.as<BinaryNode>() : nullptr;
  if (!target.machine.half_products || !term || term->op != BinaryOp::kMul) return false;
  auto is_half = [](const Expr& e) {
    const auto* wide = e.as<CastNode>();
    return wide && wide->type.dtype == DType::kF32 && wide->a.type().dtype == DType::kF16;
  };
  return is_half(term->a) && is_half(term->b);
}

namespace {

/// Takes leaves from the end of both lists that together have at most `limit` iterations; divides the last
/// one if it alone has more. Returns those taken, outermost first. An extent of 0 is not known.
std::vector<IterVarPtr> take_inner(Stage& product, int64_t limit, std::vector<IterVarPtr>& leaves,
                                   std::vector<int64_t>& extents) {
  std::vector<IterVarPtr> taken;
  for (int64_t left = limit; !leaves.empty() && extents.back() != 0 && extents.back() <= left;) {
    left /= std::max<int64_t>(extents.back(), 1);
    taken.insert(taken.begin(), leaves.back());
    leaves.pop_back();
    extents.pop_back();
  }
  if (!taken.empty() || leaves.empty()) return taken;
  const int64_t part = extents.back() == 0 ? limit : costs::half_part(extents.back(), limit);
  auto [outer, inner] = product.split(leaves.back(), part);
  leaves.back() = outer;
  extents.back() = ceil_div(extents.back(), part);
  return {inner};
}

/// 0 where they are not known.
std::vector<int64_t> reduced_extents(const Stage& product) {
  std::vector<int64_t> extents;
  for (const IterVarPtr& axis : product.reduce_axes())
    extents.push_back(constant_extent(axis->extent).value_or(0));
  return extents;
}

}  // namespace

std::vector<IterVarPtr> sum_in_half(Stage& product, std::vector<IterVarPtr> leaves,
                                    std::vector<int64_t> extents) {
  const std::vector<IterVarPtr> products = take_inner(product, costs::kHalfChunk, leaves, extents);
  if (products.empty()) return leaves;
  const std::vector<IterVarPtr> sums = take_inner(product, costs::kHalfChunks, leaves, extents);
  std::vector<IterVarPtr> levels;
  if (!sums.empty()) levels.push_back(sums.front());
  levels.push_back(products.front());
  product.sum_in_half(levels);
  leaves.insert(leaves.end(), sums.begin(), sums.end());
  leaves.insert(leaves.end(), products.begin(), products.end());
  return leaves;
}

std::vector<IterVarPtr> sum_in_half(Stage& product) {
  return sum_in_half(product, product.reduce_axes(), reduced_extents(product));
}

std::vector<IterVarPtr> sum_in_parts(Stage& product, std::vector<IterVarPtr> leaves,
                                     std::vector<int64_t> extents, int64_t limit) {
  if (extents.empty() || extents.back() == 0) return leaves;
  // A last part of fewer terms would ask in every step whether it is over.
  if (extents.back() > limit && extents.back() % costs::half_part(extents.back(), limit) != 0) return leaves;
  const std::vector<IterVarPtr> part = take_inner(product, limit, leaves, extents);
  if (!leaves.empty()) product.sum_in_parts(part.front());
  leaves.insert(leaves.end(), part.begin(), part.end());
  return leaves;
}

std::vector<IterVarPtr> sum_in_parts(Stage& product, int64_t limit) {
  return sum_in_parts(product, product.reduce_axes(), reduced_extents(product), limit);
}

void schedule_half_operand(Stage& operand, bool worth_it, const Target& target) {
  const auto axes = operand.axes();
  const int64_t depth = constant_extent(axes.back()->extent).value_or(guess::kLong);
  const int lanes = costs::choose_lanes(depth, byte_width(operand.op()->result_dtypes[0]), target.machine);
  fuse_and_parallelize(operand, {axes.begin(), axes.end() - 1}, worth_it);
  if (lanes <= 1) return;
  auto [vectors, lane] = operand.split(axes.back(), lanes, tail_for(axes.back(), lanes));
  (void)vectors;
  operand.vectorize(lane);
}

int result_lanes(const costs::ProductTile& tile, const OperationNode& output, const Target& target) {
  return std::min(tile.lanes, std::max(1, target.machine.vector_bytes / byte_width(output.result_dtypes[0])));
}

Stage* padding_of(const Schedule& schedule, const Stage& reduction) {
  for (const auto& stage : schedule.stages()) {
    if (stage->op()->role != Role::kPad || !stage->attachment().is_root()) continue;
    auto readers = readers_of(schedule, *stage->op());
    if (readers.size() == 1 && readers.front() == reduction.op().get()) return stage.get();
  }
  return nullptr;
}

namespace {

/// Reads of one operation replaced by its body.
class InlinedReads : public ExprMutator {
 public:
  explicit InlinedReads(const OperationNode& op) : op_(op) {}

 protected:
  Expr mutate_read(const ReadNode* node, const Expr& self) override {
    if (node->op.get() != &op_) return ExprMutator::mutate_read(node, self);
    std::vector<std::pair<const VarNode*, Expr>> bindings;
    for (size_t i = 0; i < op_.axes.size(); ++i)
      bindings.emplace_back(op_.axes[i]->var.as<VarNode>(), node->indices[i]);
    return substitute(op_.body, bindings);
  }

 private:
  const OperationNode& op_;
};

}  // namespace

Expr inline_reads(const Expr& body, const OperationNode& op) {
  return InlinedReads(op).mutate(body);
}

bool padding_vanishes(const OperationNode& pad, const OperationNode& reduction) {
  const auto* root = reduction.body.as<ReduceNode>();
  std::vector<Expr> inside;
  return without_padding(root->reduce, inline_reads(root->value, pad), inside).has_value();
}

Operation packed_weights(const Stage& anchor) {
  Operation weights;
  walk(anchor.op()->body, [&](const Expr& e) {
    const auto* read = e.as<ReadNode>();
    if (read && read->op->kind == OperationNode::Kind::kPlaceholder && !read->indices.empty() &&
        read->indices.back().same_as(anchor.axes().back()->var))
      weights = read->op;
  });
  return weights;
}

namespace {

// Computed once for all that read them, or placed by a rule.
bool stays_at_root(Role role) {
  switch (role) {
    case Role::kPad:
    case Role::kTileRows:
    case Role::kSumSoFar:
    case Role::kMatmulPanel:
    case Role::kResizeTable:
    case Role::kResizedLines:
      return true;
    default:
      return false;
  }
}

// Inlining a producer repeats its work once a read; that is welcome only where it is cheap or read once.
bool should_inline(const Schedule& schedule, const Stage& stage) {
  const OperationNode& op = *stage.op();
  if (!is_compute(op) || is_reduction(op) || stays_at_root(op.role)) return false;
  for (const Tensor& output : schedule.outputs()) {
    if (output.op().get() == &op) return false;
  }
  constexpr int kCheap = 24;
  auto readers = readers_of(schedule, op);
  // A nest written by hand reads memory.
  if (!std::ranges::all_of(readers, [](const auto* reader) { return is_compute(*reader); })) return false;
  // Rounded once, unless it is padded, which rounds it on the way.
  if (op.role == Role::kHalfOperand &&
      std::ranges::any_of(readers, [](const auto* r) { return is_reduction(*r); }))
    return false;
  if (element_cost(op.body) <= kCheap) return true;
  // A reduction over an axis that the producer does not have would evaluate it many times.
  for (const OperationNode* reader : readers) {
    if (is_reduction(*reader) && reader->axes.size() + reader->reduce_axes.size() > op.axes.size())
      return false;
  }
  return readers.size() <= 2;
}

}  // namespace

void inline_elementwise(Schedule& schedule, const Stage* kept) {
  for (const auto& stage : schedule.stages()) {
    if (stage.get() != kept && stage->attachment().is_root() && should_inline(schedule, *stage))
      stage->compute_inline();
  }
}

}  // namespace gantry::cpu
