// What lowering knows of each stage while it builds the nest. Private to host/loops.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "host/loops/lower.h"
#include "host/loops/unique_names.h"
#include "host/tensor/simplifier.h"

namespace gantry {

/// A condition on the loops of a stage under which a point exists.
struct StageGuard {
  enum class Kind : uint8_t {
    kSplit,   ///< the loops of a split go beyond its axis
    kDomain,  ///< the region goes beyond the tensor
    kThread,  ///< the stage uses fewer threads than there are
    kTerm,    ///< elsewhere what is summed is zero
  };
  Expr condition;
  int level = -1;       ///< the innermost own leaf in it; -1: none
  bool reduce = false;  ///< involves a reduction leaf
  Kind kind = Kind::kSplit;
};

/// Threads that compute a stage: consecutive ones of the block.
struct ThreadGroup {
  Expr index;        ///< of a thread in its group, in terms of the launch's thread variable
  int64_t size = 1;  ///< threads of the group
};

struct StageState {
  const Stage* stage = nullptr;
  Expr body;                      ///< producers that are inline substituted
  std::vector<Expr> low, extent;  ///< region computed, one a data axis
  std::vector<Expr> storage;      ///< extents of the buffer where it holds the region: rows may be padded
  int64_t copy_elements = 0;      ///< where tiles take turns: of one of the buffer's two parts
  Buffer buffer;
  bool whole_buffer = false;  ///< the buffer holds the full tensor, not just the region
  /// Only what is read, where the stage is attached or bounded.
  bool computes_part() const { return stage->attach == AttachKind::kAt || (stage->bounded && !whole_buffer); }
  std::vector<Expr> leaf_vars, leaf_extents;
  std::map<const VarNode*, Expr> axis_values;  ///< variables of the op's axes in terms of leaf_vars
  /// The same for what the iterations read, which guards keep within the parts that are split unevenly.
  std::map<const VarNode*, Expr> axis_reach;
  std::vector<StageGuard> guards;
  std::vector<StageState*> attached;  ///< producers first
  std::string sources;                ///< of the stage and of those that are inline in it, for dumps

  // Inside launches only.
  StorageScope scope = StorageScope::kGlobal;  ///< where the result of an attached stage lives
  StageState* root = nullptr;                  ///< the stage whose loops are the launch; null on a CPU
  Expr thread_var;                             ///< roots: the launch's thread index
  int64_t block_threads = 1;                   ///< roots: of the launch
  ThreadGroup group;                           ///< threads that run this stage's loops

  const OperationNode& op() const { return *stage->op; }
  int leaf_index(const IterVar* axis) const;
  LoopKind loop_kind(int leaf) const;
  bool is_reduce_leaf(int leaf) const;
  /// All threads of the block compute it together, and its result is in shared memory.
  bool is_cooperative() const { return scope == StorageScope::kShared; }
  bool is_thread_leaf(int leaf) const { return loop_kind(leaf) == LoopKind::kThread; }
  /// Product of the extents of thread-bound leaves in [begin, end).
  int64_t threads_of(int begin, int end) const;
  int64_t threads_of_all() const { return threads_of(0, static_cast<int>(leaf_vars.size())); }
};

Stmt replace_vars(const Stmt& s, const std::map<const VarNode*, Expr>& values);
/// The innermost leaf bound to blocks; -1: none.
int last_block_leaf(const StageState& state);

/// Reductions: what build_reduction() knows of the part inside the first reduction loop.
struct Reduction {
  int first = 0;                       ///< the first reduction leaf
  std::vector<int> inner, inner_data;  ///< leaves from there on; those of data axes
  Expr lane_var;                       ///< of the vectorized reduction leaf, if any
  int64_t lanes = 1;
  int64_t points = 1;     ///< elements that one run of the nest computes
  bool constant = true;   ///< `points` is known
  int64_t threads = 1;    ///< that share one reduction
  bool separate = false;  ///< accumulators are a buffer of their own
  Buffer accumulator;
  Expr point, index;  ///< of the point; of its (first) accumulator
};

/// Sums of products a * b in f16: see Stage::sum_in_half.
struct HalfSums {
  const Reduction& plan;
  std::vector<size_t> levels;  ///< where in plan.inner each begins
  Expr a, b;
  std::vector<int> tile;  ///< data leaves inside
};

struct TilePlan;  // tile_plan.h

/// The whole lowering; each member function is a step of it, in this order.
class Lowering {
 public:
  Lowering(const Schedule& schedule, const std::vector<Tensor>& inputs, std::string name);
  LoopKernel run();

 private:
  // inline_stages.cpp
  void inline_stages();
  void settle_scope(StageState& state) const;
  // infer_region.cpp
  void infer_region(StageState& state);
  void round_to_tiles(StageState& state) const;
  void shift_inwards(StageState& state);
  std::set<const VarNode*> enclosing_vars(const StageState& state) const;
  std::set<const VarNode*> fixed_vars(const StageState& state) const;
  bool add_read(StageState& state, const std::vector<Expr>& indices, const std::set<const VarNode*>& fixed,
                bool first, bool exact);
  // stage_domain.cpp
  void make_loops(StageState& state);
  using AxisExprs = std::map<const IterVar*, Expr>;
  void place_parents(const StageState& state, const AxisExprs& extents, bool within, AxisExprs& offsets);
  void make_guards(StageState& state, const AxisExprs& offsets, const AxisExprs& reach,
                   const AxisExprs& extents);
  Expr uniform_over_lanes(const StageState& state, const Expr& condition);
  Expr without_shift(const Expr& claim);
  // lower.cpp
  void place_buffers();
  Buffer make_buffer(StageState& state);
  bool in_parallel_loop(const StageState& state) const;
  StageState* state_of(const OperationNode* op);
  Stmt lower_extern(const StageState& state);
  Buffer buffer_of(const OperationNode* op, int result);
  // stage_threads.cpp
  void assign_threads();
  void assign_group(StageState& state);
  Stmt with_threads(const StageState& root, Stmt body) const;
  Stmt build_launch(StageState& root);
  // stage_guards.cpp
  enum class Purpose : uint8_t { kCompute, kInitialize, kStore };
  int meeting_leaf(const StageState& state) const;
  bool meets(const StageState& state) const;
  bool stays_inside(const StageState& state);
  bool vanishes(const StageState& state, const Expr& e, const Expr& condition);
  bool needs(const StageState& state, const StageGuard& guard, Purpose purpose, bool separate);
  Stmt guarded(const StageState& state, int first, int last, Purpose purpose, bool separate, Stmt inner);
  // attach_stages.cpp
  Stmt with_attached(StageState& state, int leaf, Stmt inner);
  bool in_serial_loop(const StageState& state, int leaf) const;
  // pipeline_tiles.cpp
  bool takes_turns(const StageState& producer) const;
  Expr turn_offset(const StageState& producer) const;
  std::vector<StageState*> tiles_in_turn(const StageState& state, int leaf) const;
  Stmt build_pipelined_loop(StageState& state, int leaf, LoopKind kind, Stmt body);
  // build_nest.cpp
  Stmt build_stage(StageState& state);
  Stmt build_elements(StageState& state);
  Stmt with_fetches(const StageState& state, int leaf, Stmt body);
  std::vector<Stmt> fetches_of(const StageState& state, int leaf, const Stage::FetchAhead& fetch);
  Stmt build_loops(StageState& state, const std::vector<int>& leaves, size_t at, Purpose purpose,
                   bool separate, const Stmt& innermost);
  Expr to_loads(const StageState& state, const Expr& e);
  Expr store_index(const StageState& state);
  Stmt with_prefetches(const StageState& state, int leaf, const Stmt& inner);
  // build_reduction.cpp
  Expr lift_padding(StageState& state, int first_reduce);
  Reduction plan_reduction(StageState& state, int first_reduce);
  Stmt build_reduction(StageState& state, int first_reduce);
  size_t tile_of_cut_reduction(const StageState& state, const Reduction& plan) const;
  size_t innermost_part(const StageState& state, const Reduction& plan) const;
  Stmt build_cut_update(StageState& state, const Reduction& plan, size_t innermost, const Expr& value);
  Stmt build_half_update(StageState& state, const Reduction& plan, const Expr& value);
  Stmt build_half_level(StageState& state, const HalfSums& half, size_t level,
                        const std::function<Stmt(const Expr&)>& finish);
  Buffer tile_sums(const StageState& state, const std::vector<int>& tile, DType dtype, Expr& point);
  // build_fragments.cpp
  std::pair<size_t, size_t> fragment_axes(const StageState& state) const;
  void check_fragment(const StageState& state);
  int64_t fragment_elements(const StageState& state) const;
  Expr fragment_tile(const StageState& state, const std::vector<Expr>& offsets);
  Expr read_fragment(const StageState& state, const std::vector<Expr>& indices);
  Stmt load_operand(StageState& state, const Expr& factor, bool is_a, const std::vector<int>& leaves,
                    Buffer& fragment, Expr& index);
  Stmt build_mma(StageState& state, int first_reduce);
  // build_tiles.cpp
  TilePlan plan_tiles(const StageState& state, int first_reduce) const;
  void plan_dots(const StageState& state, TilePlan& plan);
  Stmt build_tiles(StageState& state, int first_reduce);
  Stmt configure_tiles(const StageState& state) const;
  // fetch_weights.cpp
  std::vector<Stmt> fetch_weights(const StageState& state, const TilePlan& plan);
  // fetch_rows.cpp
  std::vector<Stmt> fetch_rows(const StageState& state, const TilePlan& plan);
  // fetch_results.cpp
  std::vector<Stmt> fetch_results(const StageState& state, const TilePlan& plan);
  // thread_reduction.cpp
  Stmt build_thread_reduction(StageState& state, Reduction& plan, Stmt init, Stmt update, Expr partial);
  friend class ReadLowering;

  const Schedule& schedule_;
  std::vector<Tensor> inputs_;
  LoopKernel kernel_;
  std::vector<std::unique_ptr<StageState>> states_;  ///< computed stages, producers first
  std::map<const Stage*, StageState*> by_stage_;
  std::map<const VarNode*, std::pair<StageState*, int>> loop_vars_;
  int64_t local_bytes_ = 0;                       ///< of local buffers that are not small, so far
  std::map<const VarNode*, Expr> thread_values_;  ///< variables of thread-bound leaves
  std::map<std::pair<const Stage*, int>, Buffer> fixed_buffers_;  ///< placeholders, extern results
  UniqueNames unique_;  ///< names of buffers and of variables
  Simplifier simplifier_;
};

}  // namespace gantry
