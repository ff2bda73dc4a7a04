// Matrix products of two tensors that are only known when the program runs.
#include "host/target/cpu/rules.h"
#include "host/target/cpu/tile_model.h"

namespace gantry::cpu {
namespace {

Stage* find_matmul(Schedule& schedule) {
  for (const auto& stage : schedule.stages()) {
    if (stage->op->tag == "matmul" && is_reduction(*stage->op)) return stage.get();
  }
  return nullptr;
}

}  // namespace

bool schedule_matmul(Schedule& schedule, const Target& target) {
  Stage* product = find_matmul(schedule);
  if (!product || schedule.outputs().size() != 1 || product->axes().size() < 2) return false;
  // Without contiguous columns the generic reduction rule does better.
  if (read_stride(*product->op, product->axes().back()->var) != std::optional<int>(1)) return false;

  Operation output_op = schedule.outputs()[0].op();
  inline_elementwise(schedule);
  Tensor acc = product->op == output_op ? schedule.cache_write(Tensor(product->op, 0), StorageScope::kLocal)
                                        : Tensor(product->op, 0);
  Stage& output = schedule[schedule.outputs()[0]];
  Stage& inner = schedule[acc];
  const auto axes = output.axes();
  size_t row = axes.size() - 2, column = axes.size() - 1;

  ProductWork work;
  work.channels = constant_extent(axes[column]->extent).value_or(256);
  work.row_extent = constant_extent(axes[row]->extent).value_or(0);
  std::vector<IterVarPtr> batch(axes.begin(), axes.begin() + static_cast<long>(row));
  work.row_count = constant_volume(batch).value_or(1);
  work.reduction = constant_volume(inner.reduce_axes()).value_or(256);
  work.element_bytes = byte_width(output_op->result_dtypes[0]);
  ProductTile tile = choose_product_tile(work, target.machine);
  int64_t block = tile.channel_block();

  auto [column_outer, column_inner] = output.split(axes[column], block, tail_for(axes[column], block));
  auto [row_outer, row_inner] = output.split(axes[row], tile.rows, tail_for(axes[row], tile.rows));
  std::vector<IterVarPtr> order = batch;
  order.insert(order.end(), {column_outer, row_outer, row_inner, column_inner});
  output.reorder(order);
  output.unroll(row_inner);
  vectorize_block(output, column_inner, block, tile.lanes);
  std::vector<IterVarPtr> outer = batch;
  outer.insert(outer.end(), {column_outer, row_outer});
  auto points = constant_volume(axes);
  bool worth_it = !points || *points * work.reduction >= kParallelThreshold * 4;
  IterVarPtr fused = fuse_and_parallelize(output, outer, worth_it);

  inner.compute_at(output, fused);
  inner.scope = StorageScope::kLocal;
  const auto acc_axes = inner.axes();
  std::vector<IterVarPtr> acc_order(acc_axes.begin(), acc_axes.begin() + static_cast<long>(row));
  for (const auto& axis : inner.reduce_axes()) acc_order.push_back(axis);
  acc_order.insert(acc_order.end(), {acc_axes[row], acc_axes[column]});
  inner.reorder(acc_order);
  inner.unroll(acc_axes[row]);
  vectorize_block(inner, acc_axes[column], block, tile.lanes);
  return true;
}

}  // namespace gantry::cpu
