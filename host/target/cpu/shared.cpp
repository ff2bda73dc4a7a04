#include "host/target/cpu/rules.h"

#include <algorithm>
#include <limits>

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
  return extent && *extent >= factor ? TailStrategy::kShiftInwards : TailStrategy::kGuard;
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

std::vector<IterVarPtr> chunk_for_half(Stage& product, const IterVarPtr& leaf, int64_t extent) {
  const int64_t chunk = half_chunk(extent);
  std::vector<IterVarPtr> leaves{leaf};
  if (chunk != extent) {
    auto [chunks, inside] = product.split(leaf, chunk);
    leaves = {chunks, inside};
  }
  product.sum_in_half(leaves.back());
  return leaves;
}

std::vector<IterVarPtr> chunk_for_half(Stage& product, std::vector<IterVarPtr> axes) {
  if (axes.empty()) return axes;
  // Windows of few channels: several axes make a chunk.
  constexpr int64_t kUnknown = std::numeric_limits<int32_t>::max();
  auto extent = [&](size_t i) { return constant_extent(axes[i]->extent).value_or(kUnknown); };
  size_t first = axes.size() - 1;
  int64_t products = extent(first);
  if (half_chunk(products) != products) {
    const std::vector<IterVarPtr> leaves = chunk_for_half(product, axes.back(), products);
    axes.pop_back();
    axes.insert(axes.end(), leaves.begin(), leaves.end());
    return axes;
  }
  while (first > 0 && half_chunk(products * extent(first - 1)) == products * extent(first - 1))
    products *= extent(--first);
  product.sum_in_half(axes[first]);
  return axes;
}

int result_lanes(const ProductTile& tile, const OperationNode& output, const Target& target) {
  return std::min(tile.lanes, std::max(1, target.machine.vector_bytes / byte_width(output.result_dtypes[0])));
}

Operation packed_weights(const Stage& anchor) {
  Operation weights;
  walk(anchor.op->body, [&](const Expr& e) {
    const auto* read = e.as<ReadNode>();
    if (read && read->op->kind == OperationNode::Kind::kPlaceholder && !read->indices.empty() &&
        read->indices.back().same_as(anchor.axes().back()->var))
      weights = read->op;
  });
  return weights;
}

namespace {

// Inlining a producer repeats its work once a read; that is welcome only where it is cheap or read once.
bool should_inline(const Schedule& schedule, const Stage& stage) {
  const OperationNode& op = *stage.op;
  if (!is_compute(op) || is_reduction(op) || op.tag == "pad" || op.tag == "tile_rows" ||
      op.tag == "dense_partial" || op.tag == "matmul_panel" || op.tag == "matmul_partial")
    return false;
  for (const Tensor& output : schedule.outputs()) {
    if (output.op().get() == &op) return false;
  }
  constexpr int kCheap = 24;
  auto readers = readers_of(schedule, op);
  // Rounded once, unless it is padded, which rounds it on the way.
  if (op.tag == "half_operand" && std::ranges::any_of(readers, [](const auto* r) { return is_reduction(*r); }))
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
    if (stage.get() != kept && stage->attach == AttachKind::kRoot && should_inline(schedule, *stage))
      stage->compute_inline();
  }
}

}  // namespace gantry::cpu
