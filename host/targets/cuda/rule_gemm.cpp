// Matrix products tiled for blocks and threads:
//
//   blocks (batch, row tile, column tile), threads over the tile
//     product[tm][tn] = 0                       registers
//     for k in steps of bk
//       a[bk][bm], b[bk][bn]                    shared memory, filled by all threads
//       for kk < bk: product[:][:] += a[kk][:] * b[kk][:]
//     output[tm][tn] = epilogue(product)
#include <spdlog/spdlog.h>

#include <algorithm>

#include "host/support/error.h"
#include "host/targets/common/kernel_rules.h"
#include "host/targets/common/rewrite.h"
#include "host/targets/cuda/gemm_form.h"
#include "host/targets/cuda/rule_gemm_mma.h"
#include "host/targets/cuda/rules.h"

namespace gantry::cuda {
namespace {

// Above this many operations an element the epilogue is written out for few points of a thread only.
constexpr int kHeavyEpilogue = 40;
constexpr int64_t kMaxHeavyPoints = 16;
// Blocks along y and z of a grid.
constexpr int64_t kMaxBlocksYZ = 65535;

bool depends_on(const OperationNode& op, const OperationNode& on) {
  bool found = false;
  walk(op.body, [&](const Expr& node) {
    auto* read = node.as<ReadNode>();
    found = found || (read && read->op.get() == &on);
  });
  return found;
}

/// Where the owner's axes lie in the product's result.
struct OwnerAxes {
  std::vector<IterVarPtr> batch, rows;
  IterVarPtr columns;
  std::optional<int64_t> groups;  ///< the columns hold so many batches, the batch varying slowest
};

// The stages from the product to the output only if they are elementwise, so that they can be its epilogue.
bool elementwise_after(const std::vector<Tensor>& outputs, const OperationNode& gemm, int& cost) {
  std::vector<const OperationNode*> downstream{&gemm};
  for (const Operation& op : topological_order(outputs)) {
    if (op.get() == &gemm) continue;
    if (!is_compute(*op)) {
      for (const Tensor& input : op->extern_inputs) {
        for (const OperationNode* from : downstream) {
          if (input.op().get() == from) return false;
        }
      }
      continue;
    }
    bool follows = false;
    for (const OperationNode* from : downstream) follows = follows || depends_on(*op, *from);
    if (!follows) continue;
    if (is_reduction(*op)) return false;
    if (op->role != Role::kGemmOutput) cost += element_cost(op->body);
    downstream.push_back(op.get());
  }
  return outputs.size() == 1 && downstream.back() == outputs[0].op().get() && downstream.size() > 1;
}

// How an output that follows a stage "gemm_output" is laid over the product; nothing if it is not.
std::optional<OwnerAxes> output_axes(const std::vector<Tensor>& outputs, const GemmStage& gemm, int& cost) {
  if (!elementwise_after(outputs, *gemm.op, cost)) return std::nullopt;
  const OperationNode* reader = nullptr;
  for (const Operation& op : topological_order(outputs)) {
    if (!is_compute(*op) || !depends_on(*op, *gemm.op)) continue;
    if (reader || op->role != Role::kGemmOutput) return std::nullopt;
    reader = op.get();
  }
  const OperationNode& output = *outputs[0].op();
  if (!reader || output.axes.size() < std::max<size_t>(2, reader->axes.size())) return std::nullopt;
  size_t lifted = output.axes.size() - reader->axes.size();
  for (size_t i = 0; i < reader->axes.size(); ++i) {
    if (!structurally_equal(simplify(output.axes[lifted + i]->extent), simplify(reader->axes[i]->extent)))
      return std::nullopt;
  }
  OwnerAxes owner;
  owner.columns = output.axes.back();
  size_t row_end = output.axes.size() - 1;
  owner.rows.assign(output.axes.begin(), output.axes.begin() + static_cast<long>(row_end));
  if (gemm.batch) {
    auto channels = constant_extent(simplify(reader->axes.back()->extent)), n = constant_extent(simplify(gemm.n));
    if (channels && n && *channels != *n) {
      owner.groups = *channels / *n;
    } else {
      owner.batch.assign(owner.rows.begin(), owner.rows.end() - 1);
      owner.rows.erase(owner.rows.begin(), owner.rows.end() - 1);
    }
  }
  return owner;
}

OwnerAxes stored_axes(const OperationNode& op) {
  OwnerAxes owner;
  owner.batch.assign(op.axes.begin(), op.axes.end() - 2);
  owner.rows = {op.axes[op.axes.size() - 2]};
  owner.columns = op.axes.back();
  return owner;
}

/// One product that the schedule tiles.
struct TiledGemm {
  GemmStage gemm;
  GemmTile tile;
  GemmTensors tensors;
  std::optional<OwnerAxes> owner;  ///< of the output; null if `tensors.stored` owns the tile
  std::optional<MmaTile> mma;      ///< computed on tensor cores, with these knobs
};

void schedule_product(Schedule& schedule, const TiledGemm& t, Stage& owner, const IterVarPtr& at) {
  Stage& product = schedule[t.tensors.product];
  product.compute_at(owner, at);
  product.set_scope(StorageScope::kLocal);
  const auto axes = product.axes();
  auto [step, depth] = product.split(product.reduce_axes()[0], t.tile.bk);
  std::vector<IterVarPtr> order{step, depth};
  order.insert(order.end(), axes.begin(), axes.end());
  product.reorder(order);
  product.unroll(axes[axes.size() - 2]);
  product.unroll(axes.back());
  for (const Tensor& operand : {t.tensors.a, t.tensors.b}) {
    Stage& stage = schedule[operand];
    stage.compute_at(product, step);
    bool is_a = operand.op() == t.tensors.a.op();
    fill_shared(stage, is_a ? t.gemm.a_along_m : !t.gemm.b_along_k, t.tile.threads());
    stage.pad_rows(kGemmRowPadding);
  }
  if (t.tile.double_buffer) {
    schedule[t.tensors.a].double_buffer();
    schedule[t.tensors.b].double_buffer();
  }
}

// Removes the axes of extent 1: an index that does not mention them stays a plain sum.
std::vector<IterVarPtr> take_ones(std::vector<IterVarPtr>& axes) {
  std::vector<IterVarPtr> ones, rest;
  for (const IterVarPtr& axis : axes)
    (constant_extent(simplify(axis->extent)) == 1 ? ones : rest).push_back(axis);
  axes = rest;
  return ones;
}

// The owner's loops: blocks, warps, lanes, points.
void schedule_owner(Schedule& schedule, const TiledGemm& t, Stage& owner, OwnerAxes axes) {
  if (axes.groups) {
    auto per_group = constant_extent(simplify(t.gemm.n)).value();
    auto [group, column] = owner.split(axes.columns, per_group);
    axes.batch = {group};
    axes.columns = column;
    std::vector<IterVarPtr> order{group};
    order.insert(order.end(), axes.rows.begin(), axes.rows.end());
    order.push_back(column);
    owner.reorder(order);
  }
  const GemmTile& tile = t.tile;
  std::vector<IterVarPtr> ones = take_ones(axes.batch);
  IterVarPtr last_row = axes.rows.back();
  for (const IterVarPtr& one : take_ones(axes.rows)) ones.push_back(one);
  if (axes.rows.empty()) {
    axes.rows = {last_row};
    ones.erase(std::find(ones.begin(), ones.end(), last_row));
  }
  {
    // What is fused must be adjacent.
    std::vector<IterVarPtr> order = axes.batch;
    order.insert(order.end(), axes.rows.begin(), axes.rows.end());
    order.push_back(axes.columns);
    order.insert(order.end(), ones.begin(), ones.end());
    owner.reorder(order);
  }
  IterVarPtr batch = fuse_all(owner, axes.batch);
  IterVarPtr rows = fuse_all(owner, axes.rows);
  if (t.mma) {
    schedule_mma(schedule, t.gemm, *t.mma, t.tensors, owner, batch, rows, axes.columns, ones);
    return;
  }
  int64_t lane_columns = tile.lane_columns(), lane_rows = tile.lane_rows();
  auto [row_block, row_in] = owner.split(rows, tile.bm);
  auto [row_warp, row_rest] = owner.split(row_in, tile.tm * lane_rows);
  auto [row_lane, row] = owner.split(row_rest, tile.tm);
  auto [column_block, column_in] = owner.split(axes.columns, tile.bn);
  auto [column_warp, column_rest] = owner.split(column_in, tile.tn * lane_columns);
  auto [column_lane, column] = owner.split(column_rest, tile.tn);
  std::vector<IterVarPtr> order = block_order(t.gemm, tile.bm, batch, row_block, column_block);
  std::vector<IterVarPtr> digits{row_warp, column_warp, row_lane, column_lane};
  size_t blocks = order.size();
  order.insert(order.end(), digits.begin(), digits.end());
  order.insert(order.end(), ones.begin(), ones.end());
  order.insert(order.end(), {row, column});
  owner.reorder(order);
  for (size_t i = 0; i < blocks; ++i) owner.bind(order[i], LoopKind::kBlock);
  for (const IterVarPtr& digit : digits) owner.bind(digit, LoopKind::kThread);
  owner.unroll(row);
  owner.unroll(column);
  schedule_product(schedule, t, owner, column_lane);
}

}  // namespace

void fill_shared(Stage& stage, bool along_last, int64_t threads) {
  stage.set_scope(StorageScope::kShared);
  const auto axes = stage.axes();
  IterVarPtr slow = axes[axes.size() - 2], fast = axes.back();
  if (!along_last) std::swap(slow, fast);
  auto [quads, lane] = stage.split(fast, 4);
  std::vector<IterVarPtr> order(axes.begin(), axes.end() - 2);
  order.insert(order.end(), {slow, quads, lane});
  stage.reorder(order);
  IterVarPtr flat = stage.fuse(slow, quads);
  auto [turn, thread] = stage.split(flat, threads);
  stage.bind(thread, LoopKind::kThread);
  stage.unroll(turn);
  stage.unroll(lane);
}

std::vector<IterVarPtr> block_order(const GemmStage& gemm, int64_t bm, const IterVarPtr& batch,
                                    const IterVarPtr& row_block, const IterVarPtr& column_block) {
  std::vector<IterVarPtr> order;
  if (batch) order.push_back(batch);
  auto row_blocks = constant_extent(simplify(floordiv(gemm.m + Expr(bm - 1), Expr(bm))));
  if (row_blocks && *row_blocks <= kMaxBlocksYZ) {
    order.insert(order.end(), {row_block, column_block});
  } else {
    order.insert(order.end(), {column_block, row_block});
  }
  return order;
}

/// Of the knobs that the node's decision gives.
[[noreturn]] void refuse_tile(const OperationNode& op, const GemmWork& work) {
  const std::pair<const char*, int64_t> knobs[] = {{"block_rows", work.given.bm},
                                                   {"block_columns", work.given.bn},
                                                   {"block_depth", work.given.bk},
                                                   {"split", work.given.split}};
  const auto first = std::ranges::find_if(knobs, [](const auto& knob) { return knob.second != 0; });
  analysis::refuse_knob(op, first->first, first->second,
                        "no block of threads has such a tile with what else is given: rows and columns are 16, 32, 64 or "
                        "128, depth 8, 16 or 32 and part of the shared memory, parts powers of 2 of at least two depths");
}

/// With another tile than is given: multiply-adds would be of another precision.
bool takes_tensor_cores(const GemmStage& gemm, GemmWork work, const Target& target, int64_t max_points) {
  work.given = {};
  return tensor_core_tile(gemm, work, target, max_points).has_value();
}

struct ProductPlan::Impl {
  std::vector<TiledGemm> tiled;
  std::vector<GemvTensors> vectors;
};

ProductPlan::ProductPlan(std::vector<Tensor> given, const Target& target)
    : outputs(std::move(given)), impl_(std::make_unique<Impl>()) {
  std::map<const OperationNode*, Tensor> replaced;
  for (const Operation& op : topological_order(outputs)) {
    auto gemm = find_gemm(op);
    if (!gemm) continue;
    GemmWork work = gemm_work(*gemm);
    int cost = 0;
    auto owner = output_axes(outputs, *gemm, cost);
    const int64_t max_points = cost > kHeavyEpilogue ? kMaxHeavyPoints : 64;
    if (auto mma = tensor_core_tile(*gemm, work, target, max_points)) {
      spdlog::debug("product {}x{}x{}x{}: {}: {:.1f} us predicted", work.batch, work.m, work.n, work.k, mma->str(),
                    predicted_seconds(work, *mma, target.gpu) * 1e6);
      if (mma->split > 1) owner = std::nullopt;
      // Only the block's sizes matter to the form.
      GemmTile blocks{.bm = mma->bm, .bn = mma->bn, .bk = mma->bk, .split = mma->split};
      GemmTensors tensors = tile_gemm(*gemm, blocks, target.precision, !owner);
      replaced[op.get()] = tensors.result;
      impl_->tiled.push_back({*gemm, blocks, tensors, owner, mma});
      continue;
    }
    if (work.given.any() && takes_tensor_cores(*gemm, work, target, max_points)) refuse_tile(*op, work);
    GemmTile tile = choose_gemm_tile(work, target.gpu, max_points);
    if (!work.given.allows(tile)) refuse_tile(*op, work);
    double seconds = predicted_seconds(work, tile, target.gpu);
    if (!work.symbolic && work.m <= kGemvRows && !work.given.any()) {
      GemvTile vector = choose_gemv_tile(work, target.gpu);
      double vector_seconds = predicted_seconds(work, vector, target.gpu);
      if (vector_seconds < seconds) {
        spdlog::debug("product {}x{}x{}x{}: {}: {:.1f} us predicted", work.batch, work.m, work.n, work.k,
                      vector.str(), vector_seconds * 1e6);
        impl_->vectors.push_back(split_gemv(*gemm, vector));
        replaced[op.get()] = impl_->vectors.back().result;
        continue;
      }
    }
    if (tile.split > 1) owner = std::nullopt;
    spdlog::debug("product {}x{}x{}x{}: {}: {:.1f} us predicted", work.batch, work.m, work.n, work.k, tile.str(),
                  seconds * 1e6);
    GemmTensors tensors = tile_gemm(*gemm, tile, Precision::kFp32, !owner);
    replaced[op.get()] = tensors.result;
    impl_->tiled.push_back({*gemm, tile, tensors, owner, std::nullopt});
  }
  if (!replaced.empty()) outputs = replace_tensors(outputs, replaced);
}

ProductPlan::~ProductPlan() = default;

void ProductPlan::schedule(Schedule& schedule) const {
  for (const TiledGemm& t : impl_->tiled) {
    Stage& owner = t.owner ? schedule[schedule.outputs()[0]] : schedule[t.tensors.stored];
    OwnerAxes axes = t.owner ? *t.owner : stored_axes(*owner.op());
    schedule_owner(schedule, t, owner, axes);
  }
}

std::optional<Schedule> products_rule(const std::vector<Tensor>& outputs, const Target& target) {
  const bool has_product = std::ranges::any_of(topological_order(outputs),
                                               [](const Operation& op) { return op->role == Role::kGemm; });
  if (!has_product) return std::nullopt;
  ProductPlan products(outputs, target);
  Schedule schedule = inlined_schedule(products.outputs);
  products.schedule(schedule);
  schedule_winograd(schedule);
  schedule_rest(schedule, target);
  return schedule;
}

}  // namespace gantry::cuda
