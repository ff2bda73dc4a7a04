// Winograd's algorithm (host/ops/conv.h): three launches. The products in the middle are a batch of matrix products;
// before and after it, a thread transforms one tile of one channel in registers.
#include "host/targets/cuda/rules.h"

namespace gantry::cuda {
namespace {

// All of a tile's elements in registers of the thread.
void place_tile(Stage& stage, Stage& owner, const IterVarPtr& thread) {
  stage.compute_at(owner, thread);
  stage.set_scope(StorageScope::kLocal);
  stage.unroll(stage.axes()[0]);
  stage.unroll(stage.axes()[1]);
}

// (position, tile, channel): a thread has all positions of its tile.
void schedule_input(Schedule& schedule, Stage& input) {
  const auto axes = input.axes();
  input.reorder({axes[1], axes[2], axes[0]});
  IterVarPtr thread = bind_flat(input, {axes[1], axes[2]}, kDefaultThreads);
  input.unroll(axes[0]);
  for (const Role role : {Role::kWinogradRows, Role::kWinogradPatch})
    place_tile(*stage_of(schedule, role), input, thread);
}

// (n, y, x, channel): a thread has the m x m results of a tile.
void schedule_output(Stage& output, Stage& columns) {
  const auto axes = output.axes();
  size_t first = axes.size() - 4;
  int64_t tile = constant_extent(columns.axes()[0]->extent).value();
  auto [y, y_in] = output.split(axes[first + 1], tile);
  auto [x, x_in] = output.split(axes[first + 2], tile);
  std::vector<IterVarPtr> outer(axes.begin(), axes.begin() + static_cast<long>(first) + 1);
  outer.insert(outer.end(), {y, x, axes[first + 3]});
  std::vector<IterVarPtr> order = outer;
  order.insert(order.end(), {y_in, x_in});
  output.reorder(order);
  output.unroll(y_in);
  output.unroll(x_in);
  place_tile(columns, output, bind_flat(output, outer, kDefaultThreads));
}

}  // namespace

void schedule_winograd(Schedule& schedule) {
  Stage* input = stage_of(schedule, Role::kWinogradInput);
  Stage* columns = stage_of(schedule, Role::kWinogradColumns);
  if (input) schedule_input(schedule, *input);
  if (!columns) return;
  Stage& output = schedule[schedule.outputs()[0]];
  Stage* transformed = stage_of(schedule, Role::kWinogradOutput);
  bool follows = transformed->attachment().is_inline() && output.axes().size() >= 4;
  schedule_output(follows ? output : *transformed, *columns);
}

}  // namespace gantry::cuda
