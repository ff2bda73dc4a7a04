// Matrix products of two tensors that are only known when the program runs.
//
//   parallel for (batch…, panel of columns)
//     panel[k][columns] = b[k][columns]                  where b is transposed, or its rows lie far apart
//     for row tile
//       acc[rows][panel] = 0
//       for k: acc[r][:] += broadcast(a[r][k]) * panel[k][:]
//       y[rows][panel] = epilogue(acc)
//
// A panel must fit a buffer on the stack, so long sums are cut into parts, each a nest of its own that adds
// to the sums of those before.
#include <algorithm>

#include "host/costs/dense_model.h"
#include "host/graph/shape_guess.h"
#include "host/targets/common/kernel_rules.h"
#include "host/targets/common/rewrite.h"
#include "host/targets/cpu/rules.h"
#include "host/targets/cpu/sum_of_parts.h"

namespace gantry::cpu {
namespace {

constexpr int64_t kMaxPanelBytes = 64 << 10;
/// With fewer rows, packing costs more than it saves.
constexpr int64_t kLeastPackedRows = 12, kLeastTransposedRows = 4;
/// Rows of the right operand closer than this in memory need no packing.
constexpr int64_t kFarRowBytes = 1024;

bool is_matmul(const OperationNode& op) {
  return op.role == Role::kMatmul && is_reduction(op) && op.axes.size() >= 2 && op.reduce_axes.size() == 1;
}

costs::DenseWork work_of(const OperationNode& product) {
  costs::DenseWork work;
  const size_t rank = product.axes.size();
  work.rows = constant_extent(product.axes[rank - 2]->extent).value_or(0);
  work.units = guess::extent(constant_extent(product.axes[rank - 1]->extent), guess::Extent::kColumns);
  work.depth = guess::extent(constant_volume(product.reduce_axes), guess::Extent::kDepth);
  work.element_bytes = byte_width(product.result_dtypes[0]);
  return work;
}

bool mentions_var(const Expr& e, const Expr& var) {
  bool found = false;
  walk(e, [&](const Expr& node) { found = found || node.same_as(var); });
  return found;
}

/// The factors of the product: that of the rows and that of the columns.
std::optional<std::pair<Expr, Expr>> factors_of(const OperationNode& product) {
  const auto* times = product.body.as<ReduceNode>()->value.as<BinaryNode>();
  if (!times || times->op != BinaryOp::kMul) return std::nullopt;
  const Expr& column = product.axes.back()->var;
  const bool left = mentions_var(times->a, column), right = mentions_var(times->b, column);
  if (left == right) return std::nullopt;
  return left ? std::pair(times->b, times->a) : std::pair(times->a, times->b);
}

/// Bytes from one row of the right operand to the next; nothing if its columns are not contiguous.
std::optional<int64_t> row_bytes(const OperationNode& product, const Expr& factor) {
  if (read_stride(factor, product.axes.back()->var) != std::optional<int>(1)) return std::nullopt;
  int64_t bytes = kFarRowBytes;
  walk(factor, [&](const Expr& node) {
    const auto* read = node.as<ReadNode>();
    if (!read || read->indices.empty()) return;
    const Expr& extent = read->op->result_shapes[static_cast<size_t>(read->result)].back();
    bytes = guess::extent(constant_extent(extent), guess::Extent::kColumns) * byte_width(node.type().dtype);
  });
  return bytes;
}

bool wants_packing(const OperationNode& product, const Expr& factor) {
  const costs::DenseWork work = work_of(product);
  if (work.units == 1) return false;
  const auto bytes = row_bytes(product, factor);
  const int64_t rows = work.rows == 0 ? kLeastPackedRows : work.rows;
  if (!bytes) return rows >= kLeastTransposedRows;
  return *bytes >= kFarRowBytes && rows >= kLeastPackedRows && work.depth >= 32;
}

/// The product reading its right operand through a stage (batch…, k, column).
Tensor with_panel(const OperationNode& product, const Expr& rows, const Expr& columns) {
  const size_t rank = product.axes.size();
  const IterVarPtr& k = product.reduce_axes.front();
  std::vector<Expr> shape = product.result_shapes[0];
  shape[rank - 2] = k->extent;
  auto element = [&](const std::vector<Expr>& index) {
    std::vector<std::pair<const VarNode*, Expr>> bindings{{k->var.as<VarNode>(), index[rank - 2]}};
    for (size_t i = 0; i < rank; ++i) {
      if (i != rank - 2) bindings.emplace_back(product.axes[i]->var.as<VarNode>(), index[i]);
    }
    return substitute(columns, bindings);
  };
  Tensor panel = compute(shape, element, "panel", Role::kMatmulPanel);
  auto step = reduce_axis(0, k->extent, "k");
  auto body = [&](const std::vector<Expr>& index) {
    std::vector<std::pair<const VarNode*, Expr>> bindings{{k->var.as<VarNode>(), step->var}};
    for (size_t i = 0; i < rank; ++i) bindings.emplace_back(product.axes[i]->var.as<VarNode>(), index[i]);
    std::vector<Expr> at = index;
    at[rank - 2] = step->var;
    return sum(substitute(rows, bindings) * panel(at), {step});
  };
  return compute(product.result_shapes[0], body, product.name, product.role);
}

/// Into how many parts the sum is cut so that a panel fits its buffer; 0: into too many.
int64_t parts_of(const costs::DenseWork& work, const MachineModel& machine) {
  constexpr int64_t kMaxParts = 32;
  for (int64_t parts = 1; parts <= kMaxParts; ++parts) {
    if (work.depth % parts != 0) continue;
    costs::DenseWork part = work;
    part.depth = work.depth / parts;
    const int64_t block = costs::choose_dense_tile(part, machine).tile.channel_block();
    if (part.depth * block * work.element_bytes <= kMaxPanelBytes) return parts;
  }
  return 0;
}

struct Parts {
  Stage *product = nullptr, *panel = nullptr;
};

/// Products with their panels, in order.
std::vector<Parts> find_products(Schedule& schedule) {
  std::vector<Parts> found;
  Stage* panel = nullptr;
  for (const auto& stage : schedule.stages()) {
    if (stage->op()->role == Role::kMatmulPanel) panel = stage.get();
    if (!is_matmul(*stage->op())) continue;
    found.push_back({stage.get(), panel});
    panel = nullptr;
  }
  return found;
}

/// Copies columns that are contiguous; where the depth is, blocks of both are turned in registers
/// (host/loops/transpose_blocks.cpp).
void schedule_panel(Stage& panel, int64_t block, int lanes) {
  const auto axes = panel.axes();
  const IterVarPtr &depth = axes[axes.size() - 2], &column = axes.back();
  const bool turned = read_stride(*panel.op(), column->var) == std::nullopt &&
                      read_stride(*panel.op(), depth->var) == std::optional<int>(1);
  if (!turned || lanes <= 1 || constant_extent(depth->extent).value_or(0) < lanes)
    return vectorize_block(panel, column, block, lanes);
  auto [steps, step] = panel.split(depth, lanes, tail_for(depth, lanes));
  auto [vectors, lane] = panel.split(column, lanes);
  std::vector<IterVarPtr> order(axes.begin(), axes.end() - 2);
  order.insert(order.end(), {vectors, steps, step, lane});
  panel.reorder(order);
  panel.vectorize(lane);
}

/// One product attached to the stage that reads it.
void schedule_product(Stage& owner, const Parts& parts, const costs::ProductTile& tile, bool worth_it) {
  const auto axes = owner.axes();
  const size_t row = axes.size() - 2, column = axes.size() - 1;
  const int64_t block = tile.channel_block();
  auto [panel, unit] = owner.split(axes[column], block, tail_for(axes[column], block));
  auto [row_tile, row_inner] = owner.split(axes[row], tile.rows, tail_of_rows(axes[row], tile.rows));
  std::vector<IterVarPtr> outer(axes.begin(), axes.begin() + static_cast<long>(row));
  outer.push_back(panel);
  std::vector<IterVarPtr> order = outer;
  order.insert(order.end(), {row_tile, row_inner, unit});
  owner.reorder(order);
  owner.unroll(row_inner);
  vectorize_block(owner, unit, block, tile.lanes);
  // Without a panel there is nothing that rows share: their tiles are parallel too.
  IterVarPtr attach = row_tile;
  if (!parts.panel) outer.push_back(row_tile);
  IterVarPtr fused = fuse_and_parallelize(owner, outer, worth_it);
  if (!parts.panel) attach = fused;

  Stage& inner = *parts.product;
  inner.compute_at(owner, attach);
  inner.set_scope(StorageScope::kLocal);
  const auto sums = inner.axes();
  std::vector<IterVarPtr> sum_order(sums.begin(), sums.begin() + static_cast<long>(row));
  for (const auto& axis : sum_in_parts(inner, costs::kExactTerms)) sum_order.push_back(axis);
  sum_order.insert(sum_order.end(), {sums[row], sums[column]});
  inner.reorder(sum_order);
  inner.unroll(sums[row]);
  vectorize_block(inner, sums[column], block, tile.lanes);
  if (!parts.panel) return;
  parts.panel->compute_at(owner, fused);
  parts.panel->set_scope(StorageScope::kLocal);
  schedule_panel(*parts.panel, block, tile.lanes);
}

/// `outputs` with the right operand of products packed in panels by a stage of its own, and long sums in
/// parts whose panels are small, where that is faster.
std::vector<Tensor> pack_matmul_panels(const std::vector<Tensor>& outputs, const Target& target) {
  if (outputs.size() != 1) return outputs;
  for (const Operation& op : topological_order(outputs)) {
    if (!is_matmul(*op) || !constant_volume(op->reduce_axes)) continue;
    auto factors = factors_of(*op);
    if (!factors || !wants_packing(*op, factors->second)) return outputs;
    const int64_t parts = parts_of(work_of(*op), target.machine);
    if (parts == 0) return outputs;
    if (parts == 1)
      return replace_tensors(outputs, {{op.get(), with_panel(*op, factors->first, factors->second)}});
    const std::vector<Tensor> split = replace_tensors(outputs, {{op.get(), sum_of_parts(*op, parts)}});
    std::map<const OperationNode*, Tensor> packed;
    for (const Operation& part : topological_order(split)) {
      if (!is_matmul(*part)) continue;
      const auto own = factors_of(*part);
      packed[part.get()] = with_panel(*part, own->first, own->second);
    }
    return replace_tensors(split, packed);
  }
  return outputs;
}

bool schedule_matmul(Schedule& schedule, const Target& target) {
  const std::vector<Parts> products = find_products(schedule);
  if (products.empty() || schedule.outputs().size() != 1) return false;
  // Without contiguous columns the generic reduction rule does better, and with one.
  const OperationNode& first = *products[0].product->op();
  if (work_of(first).units == 1 || read_stride(first, first.axes.back()->var) != std::optional<int>(1))
    return false;

  const costs::DenseWork work = work_of(first);
  const costs::ProductTile tile = costs::choose_dense_tile(work, target.machine).tile;
  const auto points = constant_volume(first.axes);
  const bool worth_it = !points || *points * work.depth >= kParallelThreshold * 4;
  inline_elementwise(schedule);
  size_t done = 0;
  for (const auto& stage : schedule.stages()) {
    if (stage->op()->role == Role::kSumSoFar) schedule_product(*stage, products[done++], tile, worth_it);
  }
  Parts last = products[done];
  Operation output_op = schedule.outputs()[0].op();
  if (last.product->op() == output_op) {
    last.product = &schedule[schedule.cache_write(Tensor(last.product->op(), 0), StorageScope::kLocal)];
  }
  Stage& output = schedule[schedule.outputs()[0]];
  schedule_product(output, last, tile, worth_it);
  return true;
}

}  // namespace

std::optional<Schedule> matmul_rule(const std::vector<Tensor>& outputs, const Target& target) {
  Schedule schedule(pack_matmul_panels(outputs, target));
  if (!schedule_matmul(schedule, target)) return std::nullopt;
  return schedule;
}

}  // namespace gantry::cpu
