// A kernel between its schedule and its loops: its stages, and what is known of each. Private to host/loops.
#pragma once

#include <map>
#include <memory>
#include <optional>
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
    kUnread,  ///< nobody reads the row (Stage::read_rows_below)
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
  bool computes_part() const {
    return stage->attachment().is_at_loop() || (stage->region().bounded && !whole_buffer);
  }
  std::vector<Expr> leaf_vars, leaf_extents;
  std::vector<int>
      overlapping;  ///< leaves of which several iterations may compute the same points: shifted tiles
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

  const OperationNode& op() const { return *stage->op(); }
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

Expr product(const std::vector<Expr>& extents);
/// Whether the expression of a stage depends on elements of tensors.
bool reads_data(const Expr& e);
/// The innermost leaf bound to blocks; -1: none.
int last_block_leaf(const StageState& state);
/// Tiles of shared memory of which one is filled while the other is used.
bool takes_turns(const StageState& producer);
/// Of a stage on tensor cores: which data axes hold the rows and columns of the instruction, and the elements that
/// each thread holds of the stage's region.
std::pair<size_t, size_t> fragment_axes(const StageState& state);
int64_t fragment_elements(const StageState& state);

class StageProgram {
 public:
  StageProgram(const Schedule& schedule, const std::vector<Tensor>& inputs, std::string name);

  // The steps, in this order; each adds to what is known.
  void inline_stages();    ///< bodies of inlined stages stand in those of their readers; the others have a state each
  void place_arguments();  ///< buffers of inputs and outputs
  void make_loops();       ///< regions, from readers to producers, and the loops that compute them, with guards
  void assign_threads();   ///< GPU: which threads of a block run a stage
  void place_buffers();    ///< of results that are no arguments

  /// Text of all that is known; before inline_stages() that is the schedule.
  std::string text() const;
  StageState* state_of(const OperationNode* op) const;
  Buffer buffer_of(const OperationNode* op, int result) const;
  /// Whether iterations that run at once, of a parallel loop, blocks or threads, may compute the same
  /// elements of an output that is attached in them. Of a GPU's stages once their threads are assigned.
  bool shared_by_iterations(const StageState& state);

  const Schedule& schedule;
  std::vector<Tensor> inputs;
  LoopKernel kernel;                                 ///< without a body
  std::vector<std::unique_ptr<StageState>> states;  ///< computed stages, producers first
  std::map<const Stage*, StageState*> by_stage;
  std::map<const VarNode*, std::pair<StageState*, int>> loop_vars;  ///< of which leaf
  std::map<const VarNode*, Expr> thread_values;                     ///< variables of thread-bound leaves
  std::map<std::pair<const Stage*, int>, Buffer> fixed_buffers;     ///< placeholders, extern results
  UniqueNames unique;                                               ///< of buffers and of variables
  Simplifier simplifier;
  /// What the schedule asks for and the device has not: no further step is taken.
  std::optional<ScheduleMisfit> misfit;

 private:
  // inline_stages.cpp
  void settle_scope(StageState& state) const;
  void drop_unread_stages();
  bool is_read(const Stage& stage) const;
  // infer_region.cpp
  void infer_region(StageState& state);
  bool reads_all(const StageState& reader, const OperationNode& op) const;
  bool is_read_whole(const StageState& state) const;
  void check_attached_output(const StageState& state) const;
  std::vector<Expr> vars_at_once(const StageState& state) const;
  bool parts_lie_apart(const StageState& state, const Expr& loop_var, const std::set<const VarNode*>& same);
  void round_to_tiles(StageState& state) const;
  void shift_inwards(StageState& state);
  void end_rows(StageState& state);
  std::set<const VarNode*> enclosing_vars(const StageState& state) const;
  std::set<const VarNode*> fixed_vars(const StageState& state) const;
  bool add_read(StageState& state, const std::vector<Expr>& indices, const std::set<const VarNode*>& fixed,
                bool first, bool exact);
  // stage_domain.cpp
  using AxisExprs = std::map<const IterVar*, Expr>;
  void make_loops_of(StageState& state);
  AxisExprs extents_of(const StageState& state);
  static std::vector<int> overlapping_leaves(const Stage& stage, const AxisExprs& extents);
  void check_leaf(const StageState& state, size_t i, const Expr& extent);
  void check_rounds(const Stage& stage, const IterVarPtr& leaf, const Expr& extent);
  void place_parents(const StageState& state, const AxisExprs& extents, bool within, AxisExprs& offsets);
  void make_guards(StageState& state, const AxisExprs& offsets, const AxisExprs& reach,
                   const AxisExprs& extents);
  Expr uniform_over_lanes(const StageState& state, const Expr& condition);
  Expr without_shift(const Expr& claim);
  // stage_threads.cpp
  void assign_group(StageState& state);
  // stage_buffers.cpp
  Buffer argument_of(const Tensor& tensor);
  Buffer make_buffer(StageState& state);
  Buffer make_tile(StageState& state, BufferNode buffer);
  Buffer make_local(StageState& state, BufferNode buffer);
  bool in_parallel_loop(const StageState& state) const;

  int64_t local_bytes_ = 0;  ///< of local buffers that are not small, so far
};

}  // namespace gantry
