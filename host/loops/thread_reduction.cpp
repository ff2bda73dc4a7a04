// Reductions that consecutive threads of a block share.
//
// Every thread reduces its part; the threads of a warp exchange their values in a butterfly, after which all
// of them know the warp's; where several warps share the reduction, each leaves one value in shared memory,
// and after a barrier all threads combine these.
#include "host/loops/nest_builder.h"
#include "host/support/error.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

constexpr int64_t kWarp = 32;

void check_threads(const StageState& state, const Reduction& plan) {
  const std::string& name = state.op().name;
  int64_t block_threads = state.root->block_threads, threads = plan.threads;
  bool reduces = false;
  for (size_t i = 0; i < state.leaf_vars.size(); ++i) {
    auto leaf = static_cast<int>(i);
    if (!state.is_thread_leaf(leaf)) continue;
    internal_check(!reduces || state.is_reduce_leaf(leaf),
                   "{}: thread-bound reduction leaves must be inside all other thread-bound leaves", name);
    reduces |= state.is_reduce_leaf(leaf);
  }
  bool power = (threads & (threads - 1)) == 0;
  internal_check(threads <= kWarp ? power : threads % kWarp == 0,
                 "{}: reduces over {} threads; that must be a power of two up to 32, or a multiple of 32",
                 name, threads);
  internal_check(block_threads % std::min(threads, kWarp) == 0,
                 "{}: reduces over {} threads, which do not divide the block's {}", name, threads,
                 block_threads);
  bool one_group = state.threads_of_all() == threads && state.group.size == block_threads;
  bool everywhere = state.threads_of_all() == state.group.size || (one_group && threads > kWarp);
  internal_check(
      state.buffer->scope != BufferScope::kLocal || everywhere,
      "{}: reduces over {} of the {} threads that need the result; all of them must take part, or the "
      "result be in shared memory",
      name, threads, state.group.size);
  internal_check(one_group || threads <= kWarp || block_threads % threads == 0,
                 "{}: groups of {} threads do not divide the block's {}", name, threads, block_threads);
}

}  // namespace

Stmt NestBuilder::build_thread_reduction(StageState& state, Reduction& plan, Stmt init, Stmt update,
                                      Expr partial) {
  check_threads(state, plan);
  ReduceKind kind = state.body.as<ReduceNode>()->reduce;
  DType dtype = plan.accumulator->dtype;
  const Expr& thread = state.root->thread_var;
  int64_t block_threads = state.root->block_threads, warps = plan.threads / kWarp;
  auto make = [&](const char* suffix, int64_t count, BufferScope scope) {
    return std::make_shared<BufferNode>(
        BufferNode{unique_(state.op().name + suffix), dtype, Expr(count), scope, 16});
  };
  Buffer total = make(".total", plan.points, BufferScope::kLocal);
  Buffer other = make(".other", 1, BufferScope::kLocal);
  auto over_points = [&](Stmt s) {
    return build_loops(state, plan.inner_data, 0, Purpose::kInitialize, true, std::move(s));
  };
  std::vector<Stmt> exchange = {store(total, plan.point, std::move(partial))};
  for (int64_t mask = std::min(plan.threads, kWarp) / 2; mask > 0; mask /= 2) {
    exchange.push_back(shuffle(other, Expr(0), load(total, plan.point), static_cast<int>(mask)));
    exchange.push_back(
        store(total, plan.point, combine(kind, load(total, plan.point), load(other, Expr(0)))));
  }
  std::vector<Stmt> steps = {std::move(init), std::move(update)};
  Buffer per_warp;
  if (plan.threads > kWarp) {
    int64_t block_warps = block_threads / kWarp;
    per_warp = make(".warps", plan.points * block_warps, BufferScope::kShared);
    Expr base = plan.point * Expr(block_warps);
    exchange.push_back(
        if_stmt(eq(mod(thread, Expr(kWarp)), Expr(0)),
                store(per_warp, base + floordiv(thread, Expr(kWarp)), load(total, plan.point))));
    if (in_serial_loop(state, plan.first - 1)) steps.push_back(barrier());  // others still read the last ones
    steps.push_back(over_points(block(std::move(exchange))));
    steps.push_back(barrier());
    bool one_group = state.threads_of_all() == plan.threads && state.group.size == block_threads;
    Expr first = one_group ? base : base + floordiv(thread, Expr(plan.threads)) * Expr(warps);
    std::vector<Stmt> gather = {store(total, plan.point, load(per_warp, first))};
    for (int64_t w = 1; w < warps; ++w) {
      gather.push_back(
          store(total, plan.point, combine(kind, load(total, plan.point), load(per_warp, first + Expr(w)))));
    }
    steps.push_back(over_points(block(std::move(gather))));
  } else {
    steps.push_back(over_points(block(std::move(exchange))));
  }
  Expr value = load(total, plan.point);
  if (state.buffer->dtype != dtype) value = cast(state.buffer->dtype, value);
  Stmt result = store(state.buffer, store_index(state), value);
  if (state.buffer->scope != BufferScope::kLocal)
    result = if_stmt(eq(mod(state.group.index, Expr(plan.threads)), Expr(0)), result);
  Stmt finish = build_loops(state, plan.inner_data, 0, Purpose::kStore, true, result);
  steps.push_back(guarded(state, -1, plan.first - 1, Purpose::kStore, true, finish));
  Stmt body = block(std::move(steps));
  if (per_warp) body = allocate(per_warp, body);
  return allocate(plan.accumulator, allocate(total, allocate(other, body)));
}

}  // namespace gantry
