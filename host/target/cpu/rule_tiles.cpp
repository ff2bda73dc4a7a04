// Products on tile registers (host/ops/tiles.h).
//
//   tile_rows: parallel for (phase, row): bf16 parts of 32 elements each
//   parallel for (block of rows, block of columns)
//     product[rows][columns] on tile registers: for 32 columns: for 32 rows: for k: 2 x 2 tiles
//     output = epilogue(product)
#include <algorithm>

#include "host/target/cpu/rules.h"
#include "host/target/cpu/tile_model.h"

namespace gantry::cpu {
namespace {

constexpr int64_t kTile = 16;
// Of the product: leaves room in the second-level cache for the operands.
constexpr int64_t kBlockBytes = 64 << 10;
constexpr int64_t kMaxBlockRows = 448, kSymbolicBlockRows = 128, kMaxBlockColumns = 128;
// Weights beyond this are read once for all rows, not once a block of rows.
constexpr int64_t kResidentWeightBytes = 1 << 20;
// Of the operand's rows that a block of results needs, where each block makes its own; and how many blocks that takes.
constexpr int64_t kResidentRowBytes = 768 << 10, kOwnRowBlocks = 4;
// Rows that windows reach beyond a block are made again for the next one; as a share of the block.
constexpr double kMaxReach = 0.6;

int64_t round_up(int64_t a, int64_t unit) {
  return (a + unit - 1) / unit * unit;
}
int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

struct TileStages {
  Stage *rows = nullptr, *product = nullptr, *output = nullptr;
};

TileStages find_tiles(Schedule& schedule) {
  TileStages found;
  for (const auto& stage : schedule.stages()) {
    if (stage->op->tag == "tile_rows") found.rows = stage.get();
    if (stage->op->tag == "tile_product") found.product = stage.get();
    if (stage->op->tag == "tile_output") found.output = stage.get();
  }
  return found;
}

// The stage whose loops compute the product block by block: the kernel's output if it has the product's axes and only
// elementwise stages lie between.
Stage& owner_of(Schedule& schedule, Stage& tile_output) {
  if (schedule.outputs().size() != 1) return tile_output;
  Stage& output = schedule[schedule.outputs()[0]];
  if (!is_compute(*output.op) || output.axes().size() != tile_output.axes().size()) return tile_output;
  for (size_t i = 0; i < output.axes().size(); ++i) {
    if (!structurally_equal(simplify(output.axes()[i]->extent), simplify(tile_output.axes()[i]->extent)))
      return tile_output;
  }
  for (const auto& stage : schedule.stages()) {
    bool part = stage->op->tag == "tile_rows" || stage->op->tag == "tile_product";
    if (!part && is_compute(*stage->op) && is_reduction(*stage->op)) return tile_output;
    if (!part && !is_compute(*stage->op) && stage->op->kind != OperationNode::Kind::kPlaceholder) return tile_output;
  }
  return output;
}

// By how many rows of the product results move that are neighbours along each of the result's row axes.
std::vector<Expr> row_pitches(const OperationNode& tile_output) {
  std::vector<Expr> pitches;
  walk(tile_output.body, [&](const Expr& e) {
    const auto* read = e.as<ReadNode>();
    if (!read || read->op->tag != "tile_product") return;
    for (size_t i = 0; i + 1 < tile_output.axes.size(); ++i) {
      const Expr& var = tile_output.axes[i]->var;
      Expr next = substitute(read->indices[0], {{var.as<VarNode>(), var + Expr(1)}});
      pitches.push_back(simplify(next - read->indices[0]));
    }
  });
  return pitches;
}

// Rows of the product adjoin in the result.
bool is_dense(const OperationNode& tile_output, const std::vector<Expr>& pitches) {
  Expr expected(1);
  for (size_t i = pitches.size(); i-- > 0;) {
    const Expr& extent = tile_output.axes[i]->extent;
    if (constant_extent(simplify(extent)) != 1 && !structurally_equal(pitches[i], simplify(expected))) return false;
    expected = expected * extent;
  }
  return true;
}

// Which block of rows wastes least, larger ones first.
int64_t choose_block_rows(std::optional<int64_t> extent) {
  if (!extent) return kSymbolicBlockRows;
  if (*extent <= kSymbolicBlockRows) return *extent;
  int64_t best = *extent, best_cost = *extent <= kMaxBlockRows ? round_up(*extent, 2 * kTile) : INT64_MAX;
  for (int64_t rows = 2 * kSymbolicBlockRows; rows >= 2 * kTile; rows -= 2 * kTile) {
    int64_t cost = ceil_div(*extent, rows) * rows;
    if (rows <= *extent && cost < best_cost) best = rows, best_cost = cost;
  }
  return best;
}

// Lines of an image a block: the rows between lines are computed in vain, and so is what fills up the last tile.
int64_t choose_block_lines(int64_t lines, int64_t results, int64_t pitch) {
  int64_t best = 1;
  double best_cost = 1e300;
  for (int64_t n = 1; n <= lines; ++n) {
    int64_t rows = round_up((n - 1) * pitch + results, 2 * kTile);
    if (rows > kMaxBlockRows && n > 1) break;
    double cost = double(ceil_div(lines, n)) * (double(rows) + 8);  // each block costs something by itself
    if (cost < best_cost) best = n, best_cost = cost;
  }
  return best;
}

int64_t choose_block_columns(int64_t columns, int64_t unit, int64_t block_rows) {
  int64_t best = unit;
  for (int64_t c = unit; c <= std::min(columns, kMaxBlockColumns); c += unit) {
    if (columns % c == 0 && c * block_rows * 4 <= kBlockBytes) best = c;
  }
  return best;
}

void schedule_rows(Stage& rows, bool attached) {
  const auto axes = rows.axes();  // part, kc, phase, row, lane
  rows.reorder({axes[2], axes[3], axes[1], axes[0], axes[4]});
  rows.unroll(axes[0]);
  rows.vectorize(axes[4]);
  if (attached) return;
  auto volume = constant_volume(axes);
  fuse_and_parallelize(rows, {axes[2], axes[3]}, !volume || *volume >= 4 * kParallelThreshold);
}

const ReadNode* weight_read(const OperationNode& product) {
  const ReadNode* found = nullptr;
  walk(product.body, [&](const Expr& e) {
    const auto* read = e.as<ReadNode>();
    if (read && read->op->tag != "tile_rows") found = read;
  });
  return found;
}

int64_t weight_bytes(const OperationNode& product) {
  int64_t bytes = 2;
  for (const Expr& extent : weight_read(product)->op->result_shapes[0]) bytes *= constant_extent(extent).value();
  return bytes;
}

void schedule_product(Stage& product, int64_t block_rows, int64_t column_unit,
                      int64_t operand_bytes) {
  const auto axes = product.axes();
  const auto reduce = product.reduce_axes();  // kc, kh, kw, k
  int64_t row_unit = block_rows <= kTile ? kTile : 2 * kTile;
  auto [row_outer, row_in] = product.split(axes[0], row_unit);
  auto [row_tile, row] = product.split(row_in, kTile);
  auto [column_outer, column_in] = product.split(axes[1], column_unit);
  auto [column_tile, column] = product.split(column_in, kTile);
  // The part of the operand that all columns of the block read again stays in the second-level cache.
  const int64_t depth = constant_extent(simplify(reduce[0]->extent)).value();
  const int64_t depth_bytes = operand_bytes / depth;
  std::vector<IterVarPtr> order{column_outer, row_outer, reduce[0]};
  if (operand_bytes > kResidentRowBytes) {
    int64_t steps = 1;
    for (int64_t s = 1; s <= depth; ++s)
      if (depth % s == 0 && s * depth_bytes <= kResidentRowBytes / 2) steps = s;
    auto [depth_outer, depth_inner] = product.split(reduce[0], steps);
    order = {depth_outer, column_outer, row_outer, depth_inner};
  }
  order.insert(order.end(), {reduce[1], reduce[2], row_tile, column_tile, row, column, reduce[3]});
  product.reorder(order);
  for (const IterVarPtr& axis : {row_tile, column_tile, row, column, reduce[3]}) product.unroll(axis);
  product.tensorize_tiles(row_tile);
}

// How many rows the last tap lies beyond the first.
int64_t product_reach(const OperationNode& product) {
  int64_t reach = 0;
  walk(product.body, [&](const Expr& e) {
    const auto* read = e.as<ReadNode>();
    if (!read || read->op->tag != "tile_rows") return;
    std::vector<std::pair<const VarNode*, Expr>> first, last;
    for (const auto& tap : product.reduce_axes) {
      first.emplace_back(tap->var.as<VarNode>(), Expr(0));
      last.emplace_back(tap->var.as<VarNode>(), tap->extent - Expr(1));
    }
    Expr distance = substitute(read->indices[3], last) - substitute(read->indices[3], first);
    reach = constant_extent(simplify(distance)).value_or(0);
  });
  return reach;
}

// The rows that one block needs, for all columns.
int64_t block_operand_bytes(const OperationNode& rows, int64_t block_rows) {
  int64_t elements = block_rows;
  for (size_t i : {0, 1, 2, 4}) elements *= constant_extent(simplify(rows.axes[i]->extent)).value();
  return elements * 2;
}

}  // namespace

bool schedule_tiles(Schedule& schedule, const Target& target) {
  TileStages tiles = find_tiles(schedule);
  if (!tiles.product || !tiles.rows || !tiles.output) return false;
  inline_elementwise(schedule);
  Stage& owner = owner_of(schedule, *tiles.output);
  if (&owner != tiles.output && tiles.output->attach != AttachKind::kInline) tiles.output->compute_inline();
  if (&owner == tiles.output) tiles.output->compute_root();

  const auto axes = owner.axes();
  const size_t last = axes.size() - 1;
  const int64_t columns = constant_extent(simplify(tiles.product->axes()[1]->extent)).value();
  const int64_t unit = std::min<int64_t>(columns, 2 * kTile);
  std::vector<IterVarPtr> outer, inner;
  std::optional<int64_t> blocks_of;       // how many blocks of rows there are
  int64_t block_rows = 0;
  const std::vector<Expr> pitches = row_pitches(*tiles.output->op);
  if (is_dense(*tiles.output->op, pitches)) {
    // Axes of one element stay out of the fused one: an index without their remainders stays an interval.
    std::vector<IterVarPtr> ones, rows;
    for (size_t i = 0; i < last; ++i)
      (constant_extent(simplify(axes[i]->extent)) == 1 ? ones : rows).push_back(axes[i]);
    if (rows.empty()) {
      rows = {ones.back()};
      ones.pop_back();
    }
    std::vector<IterVarPtr> order = ones;
    order.insert(order.end(), rows.begin(), rows.end());
    order.push_back(axes[last]);
    owner.reorder(order);
    IterVarPtr flat = rows[0];
    for (size_t i = 1; i < rows.size(); ++i) flat = owner.fuse(flat, rows[i]);
    auto extent = constant_volume({axes.begin(), axes.begin() + static_cast<long>(last)});
    block_rows = choose_block_rows(extent);
    auto tail = extent ? TailStrategy::kShiftInwards : TailStrategy::kGuard;
    auto [row_outer, row] = owner.split(flat, block_rows, tail);
    outer = ones;
    outer.push_back(row_outer);
    inner = {row};
    blocks_of = extent ? std::optional(ceil_div(*extent, block_rows)) : std::nullopt;
  } else {
    int64_t lines = constant_extent(axes[1]->extent).value(), results = constant_extent(axes[2]->extent).value();
    const int64_t pitch = constant_extent(pitches[1]).value();
    int64_t block_lines = choose_block_lines(lines, results, pitch);
    block_rows = (block_lines - 1) * pitch + results;
    auto [line_outer, line] = owner.split(axes[1], block_lines, TailStrategy::kShiftInwards);
    outer = {axes[0], line_outer};
    inner = {line, axes[2]};
    int64_t images = constant_extent(axes[0]->extent).value_or(1);
    blocks_of = images * ceil_div(lines, block_lines);
    if (block_rows > kMaxBlockRows) {
      block_rows = choose_block_rows(results);
      blocks_of = *blocks_of * ceil_div(results, block_rows);
      auto [column_outer, column] = owner.split(axes[2], block_rows, TailStrategy::kShiftInwards);
      outer.push_back(column_outer);
      inner = {line, column};
    }
  }
  int64_t block_columns = choose_block_columns(columns, unit, round_up(block_rows, 2 * kTile));
  // Several blocks of rows read the same weights, one after another: those of a block of columns should stay.
  const int64_t column_bytes = weight_bytes(*tiles.product->op) / columns;
  const bool weights_first = column_bytes * columns > kResidentWeightBytes;
  while (weights_first && blocks_of.value_or(2) > 1 && block_columns % (2 * unit) == 0 &&
         block_columns * column_bytes > kResidentWeightBytes)
    block_columns /= 2;
  auto [channel_outer, channel] = owner.split(axes[last], block_columns);
  const int64_t reach = product_reach(*tiles.product->op);
  // With enough blocks of rows each makes its own part of the operand, which then never leaves the cache.
  const bool own_rows = !weights_first && (!blocks_of || *blocks_of >= kOwnRowBlocks) && double(reach) <= kMaxReach * double(block_rows) &&
                        block_operand_bytes(*tiles.rows->op, block_rows + reach) <= kResidentRowBytes;
  std::vector<IterVarPtr> shared = outer;
  if (!own_rows) shared.insert(weights_first ? shared.begin() : shared.end(), channel_outer);
  std::vector<IterVarPtr> order = shared;
  if (own_rows) order.push_back(channel_outer);
  order.insert(order.end(), inner.begin(), inner.end());
  order.push_back(channel);
  owner.reorder(order);
  vectorize_block(owner, channel, block_columns, choose_lanes(block_columns, 4, target.machine));
  IterVarPtr at = fuse_and_parallelize(owner, shared, true);

  tiles.product->compute_at(owner, own_rows ? channel_outer : at);
  tiles.product->scope = StorageScope::kLocal;
  schedule_product(*tiles.product, block_rows, unit, block_operand_bytes(*tiles.rows->op, block_rows + reach));
  if (own_rows) {
    tiles.rows->compute_at(owner, at);
    tiles.rows->scope = StorageScope::kLocal;
  }
  schedule_rows(*tiles.rows, own_rows);
  for (const auto& stage : schedule.stages()) {
    bool done = stage.get() == &owner || stage.get() == tiles.rows || stage.get() == tiles.product;
    if (!done && stage->attach == AttachKind::kRoot && is_compute(*stage->op) && !is_reduction(*stage->op))
      schedule_elementwise(*stage, target);
  }
  return true;
}

}  // namespace gantry::cpu
