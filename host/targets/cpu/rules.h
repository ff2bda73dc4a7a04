// What the CPU's schedule rules share, and rules of single stages.
#pragma once

#include "host/costs/tile_model.h"
#include "host/machine/target.h"
#include "host/targets/common/analysis.h"
#include "host/tensor/schedule.h"

namespace gantry::cpu {

using namespace analysis;  // NOLINT: every rule reasons with these

// --- shared pieces -----------------------------------------------------------------------------------------

/// Kernels with less work than this run on the calling thread: a fork and join costs about as much.
constexpr int64_t kParallelThreshold = 16384;
/// Fuses adjacent outermost axes and runs the result on the pool if the stage is worth it. Null if there are
/// none. `rounds`: the extent of the leading axes that the data of an iteration do not depend on (see
/// Stage::parallel).
IterVarPtr fuse_and_parallelize(Stage& stage, std::vector<IterVarPtr> axes, bool worth_it,
                                int64_t rounds = 1);
/// Shifting the last tile inwards needs an extent that is long enough; where it is not known, the program looks.
TailStrategy tail_for(const IterVarPtr& axis, int64_t factor);
/// The same for rows of a register tile: where their number is not known, lowering may write out a last tile for every
/// number of rows that it may have.
TailStrategy tail_of_rows(const IterVarPtr& axis, int64_t rows);
/// Lanes of a reduction along `reduced`, in vectors of `lanes`: several vectors, where it is long enough, as
/// one would wait for its own sums.
int64_t lanes_at_once(const IterVarPtr& reduced, int64_t lanes);
/// Splits off the vector lanes of an axis of `block` elements: unrolled vectors of `lanes`.
void vectorize_block(Stage& stage, const IterVarPtr& axis, int64_t block, int lanes);
/// A sum over products of f16, which the target may add in f16 (Stage::sum_in_half).
bool sums_halves(const OperationNode& product, const Target& target);
/// Divides reduction leaves of such a product, outermost first, so that the innermost are short enough to be
/// summed in f16, and asks for it; `extents`: theirs, 0 where they are not known. Returns the leaves in
/// order.
std::vector<IterVarPtr> sum_in_half(Stage& product, std::vector<IterVarPtr> leaves,
                                    std::vector<int64_t> extents);
/// The same of all its reduction axes.
std::vector<IterVarPtr> sum_in_half(Stage& product);
/// Divides the reduction leaves of a product, outermost first, so that the innermost have at most `limit`
/// terms, which are summed by themselves (Stage::sum_in_parts), where that divides them evenly. Returns the
/// leaves in order. `extents`: theirs, 0 where they are not known.
std::vector<IterVarPtr> sum_in_parts(Stage& product, std::vector<IterVarPtr> leaves,
                                     std::vector<int64_t> extents, int64_t limit);
/// The same of all its reduction axes.
std::vector<IterVarPtr> sum_in_parts(Stage& product, int64_t limit);
/// The stage of role kHalfOperand of a product, `worth_it`: on the threads that then read it, row by row as
/// they do.
void schedule_half_operand(Stage& operand, bool worth_it, const Target& target);
/// Lanes of the vectors in which a tile of sums is written as `output`.
int result_lanes(const costs::ProductTile& tile, const OperationNode& output, const Target& target);
/// The operand of a product that is contiguous along the last axis of the result; null if it is computed on
/// the way.
Operation packed_weights(const Stage& product);
/// The padding at root (role kPad) that only `reduction` reads; null if there is none.
Stage* padding_of(const Schedule& schedule, const Stage& reduction);
/// The fill leaves the reduction as it is: of padding that is inline, lowering leaves out the taps outside of
/// the data.
bool padding_vanishes(const OperationNode& pad, const OperationNode& reduction);
/// `body` with what it reads of `op` computed on the way.
Expr inline_reads(const Expr& body, const OperationNode& op);
/// Inlines every elementwise stage between root stages, except where that would repeat costly work. `kept`
/// stays at root.
void inline_elementwise(Schedule& schedule, const Stage* kept = nullptr);

// --- rules of stages; those of whole kernels: host/targets/common/kernel_rules.def
// ------------------------------------

/// `outputs` with a sum of many positions into few elements as sums of parts of the positions, then of the
/// parts.
std::vector<Tensor> split_long_sums(const std::vector<Tensor>& outputs);
/// The first step of such a sum.
bool is_partial_sum(const OperationNode& op);
void schedule_partial_sum(Schedule& schedule, Stage& stage, const Target& target);
/// `outputs` with a pooling along contiguous rows as one over the lines of its windows, then one
/// along these, where that takes fewer loads.
std::vector<Tensor> split_windows(const std::vector<Tensor>& outputs);
/// The first of these steps, which schedule_window_columns schedules with the second.
bool is_window_lines(const OperationNode& op);
/// False if `columns` is no such second step. `consumer`: as for schedule_reduction.
bool schedule_window_columns(Schedule& schedule, Stage& columns, Stage* consumer, const Target& target);
/// One reduction at root: windows (depthwise convolution, pooling) and whole axes. `consumer`: the
/// elementwise output that it is fused with, if any.
void schedule_reduction(Schedule& schedule, Stage& stage, Stage* consumer, const Target& target);
/// One elementwise or data-movement stage at root, by its own reads.
void schedule_elementwise(Stage& stage, const Target& target);
/// As above, with regard to what is inlined into it: transpositions, and concatenations, whose parts become
/// loops of their own.
void schedule_elementwise(const Schedule& schedule, Stage& stage, const Target& target);

}  // namespace gantry::cpu
