// Which threads of a block compute which stage.
//
// A launch has one thread index. Thread-bound leaves of a stage are its digits, outermost first: leaves of
// extents 4 and 32 are index / 32 and index % 32. A stage attached inside some of its consumer's thread-bound
// leaves has the threads of the remaining digits; stages in shared memory have all threads of the block.
#include "host/loops/stage_program.h"
#include "host/support/error.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

constexpr int64_t kMaxThreads = 1024;

}  // namespace

int last_block_leaf(const StageState& state) {
  int last = -1;
  for (size_t i = 0; i < state.leaf_vars.size(); ++i) {
    if (state.loop_kind(static_cast<int>(i)) == LoopKind::kBlock) last = static_cast<int>(i);
  }
  return last;
}

/// The threads that run `state`, by where it is attached; values of its thread-bound leaves.
void StageProgram::assign_group(StageState& state) {
  int count = static_cast<int>(state.leaf_vars.size());
  if (state.stage->attachment().is_root() || state.is_cooperative()) {
    state.group = {state.root->thread_var, state.root->block_threads};
  } else {
    const StageState& consumer = *by_stage.at(state.stage->attachment().consumer());
    int leaf = consumer.leaf_index(state.stage->attachment().axis().get());
    int64_t all = consumer.threads_of_all();
    int64_t rest = consumer.threads_of(leaf + 1, static_cast<int>(consumer.leaf_vars.size()));
    if (all == 1) {
      state.group = consumer.group;
    } else {
      state.group = {
          rest < consumer.group.size ? mod(consumer.group.index, Expr(rest)) : consumer.group.index, rest};
    }
  }
  int64_t used = state.threads_of_all();
  internal_check(used <= state.group.size, "{}: its loops are bound to {} threads, but only {} run it",
                 state.op().name, used, state.group.size);
  for (int i = 0; i < count; ++i) {
    if (!state.is_thread_leaf(i)) continue;
    auto at = static_cast<size_t>(i);
    int64_t inner = state.threads_of(i + 1, count), own = *constant_of(state.leaf_extents[at]);
    Expr digit = floordiv(state.group.index, Expr(inner));
    // The topmost digit needs no modulus: a guard keeps threads beyond the used ones out.
    if (own * inner < used) digit = mod(digit, Expr(own));
    thread_values[state.leaf_vars[at].as<VarNode>()] = digit;
  }
  bool one = state.is_cooperative() && used == 1;
  bool root_alone = state.stage->attachment().is_root();
  if (used < state.group.size && (used > 1 || one || root_alone)) {
    state.guards.push_back({lt(state.group.index, Expr(used)), -1, false, StageGuard::Kind::kThread});
  }
}

void StageProgram::assign_threads() {
  for (auto it = states.rbegin(); it != states.rend(); ++it) {  // readers first
    StageState& state = **it;
    if (state.op().kind != OperationNode::Kind::kCompute) continue;
    if (state.stage->attachment().is_root()) {
      state.root = &state;
      state.thread_var = make_var(unique("thread"));
    } else {
      state.root = by_stage.at(state.stage->attachment().consumer())->root;
    }
    // A root stage without threads of its own has as many as the stages inside need.
    bool own = state.root->threads_of_all() > 1 && &state != state.root;
    if (!own) state.root->block_threads = std::max(state.root->block_threads, state.threads_of_all());
  }
  for (auto it = states.rbegin(); it != states.rend(); ++it) {
    StageState& state = **it;
    if (state.op().kind != OperationNode::Kind::kCompute) continue;
    if (state.root->block_threads > kMaxThreads) {
      misfit = ScheduleMisfit{fmt::format("{} would have {} threads a block, at most {} are possible", state.root->op().name,
                                  state.root->block_threads, kMaxThreads)};
      return;
    }
    simplifier.bind(state.root->thread_var, Expr(0), Expr(state.root->block_threads));
    assign_group(state);
  }
}

}  // namespace gantry
