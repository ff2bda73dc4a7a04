// Which threads of a block compute which stage, and the launches of root stages.
//
// A launch has one thread index. Thread-bound leaves of a stage are its digits, outermost first: leaves of
// extents 4 and 32 are index / 32 and index % 32. A stage attached inside some of its consumer's thread-bound
// leaves has the threads of the remaining digits; stages in shared memory have all threads of the block.
#include "host/loops/lower_state.h"
#include "host/support/error.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

constexpr int64_t kMaxThreads = 1024;

class VarReplacer : public StmtMutator {
 public:
  explicit VarReplacer(const std::map<const VarNode*, Expr>& values) : values_(values) {}

 protected:
  Expr mutate_var(const VarNode* node, const Expr& self) override {
    auto it = values_.find(node);
    return it == values_.end() ? self : it->second;
  }

 private:
  const std::map<const VarNode*, Expr>& values_;
};

}  // namespace

Stmt replace_vars(const Stmt& s, const std::map<const VarNode*, Expr>& values) {
  return VarReplacer(values).mutate_stmt(s);
}

int last_block_leaf(const StageState& state) {
  int last = -1;
  for (size_t i = 0; i < state.leaf_vars.size(); ++i) {
    if (state.loop_kind(static_cast<int>(i)) == LoopKind::kBlock) last = static_cast<int>(i);
  }
  return last;
}

/// The threads that run `state`, by where it is attached; values of its thread-bound leaves.
void Lowering::assign_group(StageState& state) {
  int count = static_cast<int>(state.leaf_vars.size());
  if (state.stage->attach == AttachKind::kRoot || state.is_cooperative()) {
    state.group = {state.root->thread_var, state.root->block_threads};
  } else {
    const StageState& consumer = *by_stage_.at(state.stage->attach_stage);
    int leaf = consumer.leaf_index(state.stage->attach_axis.get());
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
    thread_values_[state.leaf_vars[at].as<VarNode>()] = digit;
  }
  bool one = state.is_cooperative() && used == 1;
  bool root_alone = state.stage->attach == AttachKind::kRoot;
  if (used < state.group.size && (used > 1 || one || root_alone)) {
    state.guards.push_back({lt(state.group.index, Expr(used)), -1, false, StageGuard::Kind::kThread});
  }
}

void Lowering::assign_threads() {
  for (auto it = states_.rbegin(); it != states_.rend(); ++it) {  // readers first
    StageState& state = **it;
    if (state.op().kind != OperationNode::Kind::kCompute) continue;
    if (state.stage->attach == AttachKind::kRoot) {
      state.root = &state;
      state.thread_var = make_var(unique_("thread"));
    } else {
      state.root = by_stage_.at(state.stage->attach_stage)->root;
    }
    // A root stage without threads of its own has as many as the stages inside need.
    bool own = state.root->threads_of_all() > 1 && &state != state.root;
    if (!own) state.root->block_threads = std::max(state.root->block_threads, state.threads_of_all());
  }
  for (auto it = states_.rbegin(); it != states_.rend(); ++it) {
    StageState& state = **it;
    if (state.op().kind != OperationNode::Kind::kCompute) continue;
    internal_check(state.root->block_threads <= kMaxThreads,
                   "{}: {} threads a block, at most {} are possible", state.op().name,
                   state.root->block_threads, kMaxThreads);
    simplifier_.bind(state.root->thread_var, Expr(0), Expr(state.root->block_threads));
    assign_group(state);
  }
}

Stmt Lowering::with_threads(const StageState& root, Stmt body) const {
  return for_loop(root.thread_var, Expr(0), Expr(root.block_threads), LoopKind::kThread, std::move(body));
}

/// The nest of a root stage: block loops, one thread loop, everything else.
Stmt Lowering::build_launch(StageState& root) {
  Stmt nest = build_stage(root);
  if (last_block_leaf(root) < 0) {
    nest = for_loop(make_var(unique_("block")), Expr(0), Expr(1), LoopKind::kBlock, with_threads(root, nest));
  }
  return replace_vars(nest, thread_values_);
}

}  // namespace gantry
