// Poolings of images whose rows are contiguous, (N, C, H, W), in two steps: over a window's lines, then along
// what these leave. Maxima and sums come apart like that; a window of k x k takes 2 k steps instead of k * k,
// and all that is read of the image is read in whole vectors, also where windows are strides apart.
//
//   parallel for (image, channel)
//     for y
//       lines[x] = over i of in[y * stride + i][x]
//       for block of columns: out[y][x] = over j of lines[x * stride + j]      in registers
#include "host/graph/shape_guess.h"
#include "host/targets/common/rewrite.h"
#include "host/targets/cpu/rules.h"

namespace gantry::cpu {
namespace {

// Fewer images and channels than this do not keep the threads busy: lines are shared out with them.
constexpr int64_t kManyPlanes = 24;
// What a line leaves is kept in the first-level cache.
constexpr int64_t kMaxLineBytes = 16 << 10;

/// A window's sum or maximum along the last axis of the result and the last of the reduction.
struct Window {
  const ReadNode* read = nullptr;           ///< of the image
  int64_t lines = 1, taps = 1, stride = 1;  ///< lines of a window, taps along each; between two windows
  int64_t columns = 1;                      ///< that all windows of a line reach
};

/// `column`, the image's column that a result reads at a tap, for those of that number.
std::optional<int64_t> column_at(const Expr& column, const IterVarPtr& axis, int64_t result,
                                 const IterVarPtr& tap, int64_t at) {
  const Expr there =
      substitute(column, {{axis->var.as<VarNode>(), Expr(result)}, {tap->var.as<VarNode>(), Expr(at)}});
  return constant_extent(simplify(there));
}

std::optional<Window> window_of(const OperationNode& op) {
  const auto* root = op.body.as<ReduceNode>();
  if (!root || static_cast<bool>(root->condition) || op.axes.size() < 3 || op.reduce_axes.size() < 2)
    return std::nullopt;
  const IterVarPtr &x = op.axes.back(), &tap = op.reduce_axes.back();
  Window window;
  int reads = 0;
  bool along = true;  // the last index alone, of one read, depends on the columns
  walk(root->value, [&](const Expr& e) {
    const auto* read = e.as<ReadNode>();
    if (!read) return;
    ++reads;
    window.read = read;
    for (size_t i = 0; i + 1 < read->indices.size(); ++i)
      along = along && !mentions(read->indices[i], x->var) && !mentions(read->indices[i], tap->var);
    along = along && mentions(read->indices.back(), x->var) && mentions(read->indices.back(), tap->var);
  });
  const auto lines = constant_volume({op.reduce_axes.begin(), op.reduce_axes.end() - 1});
  const auto taps = constant_extent(tap->extent);
  const auto results = constant_extent(x->extent);
  if (reads != 1 || !along || !lines || !taps || !results) return std::nullopt;
  const Expr& column = window.read->indices.back();
  const auto first = column_at(column, x, 0, tap, 0), next = column_at(column, x, 1, tap, 0),
             last = column_at(column, x, *results - 1, tap, *taps - 1);
  if (first != std::optional<int64_t>(0) || !next || !last || *next < 1) return std::nullopt;
  if ((*last + 1) * byte_width(op.result_dtypes[0]) > kMaxLineBytes) return std::nullopt;
  window.lines = *lines;
  window.taps = *taps;
  window.stride = *next;
  window.columns = *last + 1;
  return window;
}

/// Steps for a vector of results: one whose lanes lie apart takes two loads and a shuffle. Windows of 3 x 3
/// next to each other took 0.8 times as long by the rule for reductions, which shares loads between lines,
/// those two columns apart 2 times as long.
bool pays(const Window& w) {
  const int64_t apart = w.stride > 1 ? 3 : 1;
  return 1.5 * double(w.lines * w.stride + w.taps * apart) < double(w.lines * w.taps * apart);
}

/// The value at a line's column `column`, whatever window it belongs to.
class AtColumn : public ExprMutator {
 public:
  explicit AtColumn(Expr column) : column_(std::move(column)) {}

 protected:
  Expr mutate_read(const ReadNode* node, const Expr& /*self*/) override {
    std::vector<Expr> at = node->indices;
    at.back() = column_;
    return Tensor(node->op, node->result)(at);
  }

 private:
  Expr column_;
};

Tensor in_two_steps(const OperationNode& op, const Window& window) {
  const auto* root = op.body.as<ReduceNode>();
  std::vector<Expr> shape = op.result_shapes[0];
  shape.back() = Expr(window.columns);
  auto bind_results = [&](const std::vector<Expr>& index) {
    std::vector<std::pair<const VarNode*, Expr>> bindings;
    for (size_t i = 0; i < index.size(); ++i) bindings.emplace_back(op.axes[i]->var.as<VarNode>(), index[i]);
    return bindings;
  };
  auto over_lines = [&](const std::vector<Expr>& index) {
    auto bindings = bind_results(index);
    std::vector<IterVarPtr> reduced;
    for (size_t i = 0; i + 1 < op.reduce_axes.size(); ++i) {
      const IterVarPtr& axis = op.reduce_axes[i];
      reduced.push_back(reduce_axis(0, axis->extent, axis->var.as<VarNode>()->name));
      bindings.emplace_back(axis->var.as<VarNode>(), reduced.back()->var);
    }
    return reduce(root->reduce, AtColumn(index.back()).mutate(substitute(root->value, bindings)), reduced);
  };
  const Tensor lines = compute(shape, over_lines, op.name + "_lines", Role::kWindowLines);
  auto over_columns = [&](const std::vector<Expr>& index) {
    auto bindings = bind_results(index);
    const IterVarPtr tap = reduce_axis(0, window.taps, "tap");
    bindings.emplace_back(op.reduce_axes.back()->var.as<VarNode>(), tap->var);
    std::vector<Expr> at = index;
    at.back() = substitute(window.read->indices.back(), bindings);
    return reduce(root->reduce, lines(at), {tap});
  };
  return compute(op.result_shapes[0], over_columns, op.name, Role::kWindowColumns);
}

/// Whole vectors of the line at once, each over all of the window's lines.
void schedule_lines(Schedule& schedule, Stage& lines, const Target& target) {
  if (Stage* pad = padding_of(schedule, lines)) {
    if (padding_vanishes(*pad->op(), *lines.op())) {
      pad->compute_inline();
    } else {
      schedule_elementwise(*pad, target);
    }
  }
  const auto axes = lines.axes(), reduced = lines.reduce_axes();
  const int64_t width = *constant_extent(axes.back()->extent);
  const int lanes = costs::choose_lanes(width, byte_width(lines.op()->result_dtypes[0]), target.machine);
  auto [block, lane] = lines.split(axes.back(), lanes, tail_for(axes.back(), lanes));
  std::vector<IterVarPtr> order(axes.begin(), axes.end() - 1);
  order.push_back(block);
  order.insert(order.end(), reduced.begin(), reduced.end());
  order.push_back(lane);
  lines.reorder(order);
  if (lanes > 1) lines.vectorize(lane);
  constexpr int64_t kUnrolledLines = 16;
  if (constant_volume(reduced).value_or(guess::kLong) > kUnrolledLines) return;
  for (const IterVarPtr& axis : reduced) lines.unroll(axis);
}

}  // namespace

std::vector<Tensor> split_windows(const std::vector<Tensor>& outputs) {
  for (const Operation& op : topological_order(outputs)) {
    if (!is_compute(*op)) continue;
    const auto window = window_of(*op);
    if (window && pays(*window)) return replace_tensors(outputs, {{op.get(), in_two_steps(*op, *window)}});
  }
  return outputs;
}

bool is_window_lines(const OperationNode& op) {
  return op.role == Role::kWindowLines;
}

bool schedule_window_columns(Schedule& schedule, Stage& columns, Stage* consumer, const Target& target) {
  if (columns.op()->role != Role::kWindowColumns) return false;
  Stage* lines = stage_of(schedule, Role::kWindowLines);
  const Operation op = columns.op();
  Stage& owner = consumer ? *consumer : columns;
  Stage& sums = consumer ? columns : schedule[schedule.cache_write(Tensor(op, 0), StorageScope::kLocal)];

  const auto axes = owner.axes();
  const int64_t width = constant_extent(axes.back()->extent).value_or(guess::kLong);
  const int lanes = costs::choose_lanes(width, byte_width(op->result_dtypes[0]), target.machine);
  auto [block, lane] = owner.split(axes.back(), lanes, tail_for(axes.back(), lanes));
  if (lanes > 1) owner.vectorize(lane);
  std::vector<IterVarPtr> shared(axes.begin(), axes.end() - 2);
  const auto planes = constant_volume(shared), points = constant_volume(axes);
  IterVarPtr line = axes[axes.size() - 2];
  const bool shares_lines = planes && *planes < kManyPlanes;
  if (shares_lines) shared.push_back(line);
  IterVarPtr fused = fuse_and_parallelize(owner, shared, !points || *points >= kParallelThreshold / 4);
  lines->compute_at(owner, shares_lines ? fused : line);
  lines->set_scope(StorageScope::kLocal);
  schedule_lines(schedule, *lines, target);

  sums.compute_at(owner, block);
  sums.set_scope(StorageScope::kLocal);
  const auto sum_axes = sums.axes(), taps = sums.reduce_axes();
  std::vector<IterVarPtr> order(sum_axes.begin(), sum_axes.end() - 1);
  order.insert(order.end(), {taps.front(), sum_axes.back()});
  sums.reorder(order);
  constexpr int64_t kUnrolledTaps = 16;
  if (*constant_extent(taps.front()->extent) <= kUnrolledTaps) sums.unroll(taps.front());
  vectorize_block(sums, sum_axes.back(), lanes, lanes);
  return true;
}

}  // namespace gantry::cpu
