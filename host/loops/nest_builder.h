// Loops of stages of which all is known. Private to host/loops.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "host/loops/stage_program.h"

namespace gantry {

Stmt replace_vars(const Stmt& s, const std::map<const VarNode*, Expr>& values);

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

/// One walk over a program's stages.
class NestBuilder {
 public:
  explicit NestBuilder(StageProgram& program)
      : program_(program), unique_(program.unique), simplifier_(program.simplifier) {}
  /// The nests of all root stages, in order.
  Stmt build();

 private:
  // build_nests.cpp
  Stmt build_extern(const StageState& state);
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
  Expr turn_offset(const StageState& producer) const;
  std::vector<StageState*> tiles_in_turn(const StageState& state, int leaf) const;
  Stmt build_pipelined_loop(StageState& state, int leaf, LoopKind kind, Stmt body);
  // build_nest.cpp
  Stmt build_stage(StageState& state);
  Stmt build_elements(StageState& state);
  Stmt with_fetches(const StageState& state, int leaf, Stmt body);
  std::vector<Stmt> fetches_of(const StageState& state, int leaf, const FetchAhead& fetch);
  Stmt build_loops(StageState& state, const std::vector<int>& leaves, size_t at, Purpose purpose,
                   bool separate, const Stmt& innermost);
  Expr to_loads(const StageState& state, const Expr& e);
  Expr store_index(const StageState& state);
  Stmt with_prefetches(const StageState& state, int leaf, const Stmt& inner);
  // build_reduction.cpp
  Expr lift_padding(StageState& state, int first_reduce);
  static bool repeats_sums(const StageState& state, int first_reduce);
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
  void check_fragment(const StageState& state);
  Expr fragment_tile(const StageState& state, const std::vector<Expr>& offsets);
  Expr read_fragment(const StageState& state, const std::vector<Expr>& indices);
  Stmt load_operand(StageState& state, const Expr& factor, bool is_a, const std::vector<int>& leaves,
                    Buffer& fragment, Expr& index);
  Stmt build_mma(StageState& state, int first_reduce);
  // build_tiles.cpp
  TilePlan plan_tiles(const StageState& state, int first_reduce) const;
  void plan_dots(const StageState& state, TilePlan& plan);
  Stmt build_accumulators(StageState& state, TilePlan plan);
  Stmt build_heights(StageState& state, TilePlan plan, const Expr& end);
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

  StageProgram& program_;
  UniqueNames& unique_;
  Simplifier& simplifier_;
};

}  // namespace gantry
