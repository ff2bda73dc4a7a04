#include "host/targets/cuda/rule_gemm_mma.h"

#include "host/targets/cuda/rules.h"

namespace gantry::cuda {
namespace {

bool reads_winograd(const Expr& element) {
  bool found = false;
  walk(element, [&](const Expr& node) {
    auto* read = node.as<ReadNode>();
    found = found || (read && is_winograd(read->op->role));
  });
  return found;
}

void schedule_product(Schedule& schedule, const GemmStage& gemm, const MmaTile& tile,
                      const GemmTensors& tensors, Stage& owner, const IterVarPtr& at) {
  Stage& product = schedule[tensors.product];
  product.compute_at(owner, at);
  product.set_scope(StorageScope::kFragment);
  const auto axes = product.axes();
  auto [step, rest] = product.split(product.reduce_axes()[0], tile.bk);
  auto [inner_step, depth] = product.split(rest, tile.depth());
  auto [row_tile, row] = product.split(axes[axes.size() - 2], 16);
  auto [column_tile, column] = product.split(axes.back(), 8);
  std::vector<IterVarPtr> order{step, inner_step};
  order.insert(order.end(), axes.begin(), axes.end() - 2);
  order.insert(order.end(), {row_tile, column_tile, row, column, depth});
  product.reorder(order);
  product.unroll(row_tile);
  product.unroll(column_tile);
  product.tensorize(row, tile.shape);
  for (const Tensor& operand : {tensors.a, tensors.b}) {
    Stage& stage = schedule[operand];
    stage.compute_at(product, step);
    bool is_a = operand.op() == tensors.a.op();
    fill_shared(stage, is_a ? !gemm.a_along_m : gemm.b_along_k, tile.threads());
    stage.pad_rows(tile.row_padding());
    if (tile.double_buffer) stage.double_buffer();
  }
}

}  // namespace

std::optional<MmaTile> tensor_core_tile(const GemmStage& gemm, const GemmWork& work, const Target& target,
                                        int64_t max_points) {
  for (const Expr& element : {gemm.a_element, gemm.b_element}) {
    if (element.type().dtype != DType::kF32 || reads_winograd(element)) return std::nullopt;
  }
  return choose_mma_tile(work, target.precision, target.gpu, max_points);
}

void schedule_mma(Schedule& schedule, const GemmStage& gemm, const MmaTile& tile, const GemmTensors& tensors,
                  Stage& owner, const IterVarPtr& batch, const IterVarPtr& rows, const IterVarPtr& columns,
                  const std::vector<IterVarPtr>& ones) {
  auto [row_block, row_in] = owner.split(rows, tile.bm);
  auto [row_warp, row_rest] = owner.split(row_in, tile.warp_rows());
  auto [row_tile, row] = owner.split(row_rest, 16);
  auto [half, group] = owner.split(row, 8);
  auto [column_block, column_in] = owner.split(columns, tile.bn);
  auto [column_warp, column_rest] = owner.split(column_in, tile.warp_columns());
  auto [column_tile, column] = owner.split(column_rest, 8);
  auto [member, pair] = owner.split(column, 2);
  std::vector<IterVarPtr> order = block_order(gemm, tile.bm, batch, row_block, column_block);
  for (const IterVarPtr& block : order) owner.bind(block, LoopKind::kBlock);
  const std::vector<IterVarPtr> digits{row_warp, column_warp, group, member};
  order.insert(order.end(), digits.begin(), digits.end());
  order.insert(order.end(), ones.begin(), ones.end());
  const std::vector<IterVarPtr> points{row_tile, column_tile, half, pair};
  order.insert(order.end(), points.begin(), points.end());
  owner.reorder(order);
  for (const IterVarPtr& digit : digits) owner.bind(digit, LoopKind::kThread);
  for (const IterVarPtr& point : points) owner.unroll(point);
  schedule_product(schedule, gemm, tile, tensors, owner, member);
}

}  // namespace gantry::cuda
