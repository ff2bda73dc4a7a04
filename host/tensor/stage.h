// A stage: how one operation of a tensor-expression graph is computed. Its loops are a list of leaf axes,
// from outermost to innermost; primitives rewrite that list, and say how and where the loops run.
#pragma once

#include <array>
#include <utility>
#include <variant>
#include <vector>

#include "host/machine/tile_unit.h"
#include "host/tensor/attachment.h"
#include "host/tensor/loop_kinds.h"
#include "host/tensor/loop_order.h"
#include "host/tensor/matrix_instruction.h"
#include "host/tensor/prefetches.h"
#include "host/tensor/stage_memory.h"
#include "host/tensor/summation.h"
#include "host/tensor/tensor.h"

namespace gantry {

class Stage {
 public:
  /// Computed at root, in loops over its axes as they are.
  explicit Stage(Operation op);

  /// Another one after Schedule::cache_write or cache_read.
  const Operation& op() const { return op_; }
  const std::vector<IterVarPtr>& axes() const { return op_->axes; }
  const std::vector<IterVarPtr>& reduce_axes() const { return op_->reduce_axes; }
  const std::vector<IterVarPtr>& leaves() const { return order_.leaves(); }
  const std::vector<AxisRelation>& relations() const { return order_.relations(); }
  const LoopKinds& kinds() const { return kinds_; }
  const Attachment& attachment() const { return attachment_; }
  const StageMemory& memory() const { return memory_; }
  const StageRegion& region() const { return region_; }
  const Summation& summation() const { return summation_; }
  const Prefetches& prefetches() const { return prefetches_; }
  /// Null where the innermost leaves are no such instruction.
  const MmaShape* mma() const { return std::get_if<MmaShape>(&instruction_); }
  const TileUnit* tiles() const { return std::get_if<TileUnit>(&instruction_); }

  /// Divides `axis` into (outer, inner of extent factor). `factor` may be symbolic only if it divides
  /// exactly.
  std::pair<IterVarPtr, IterVarPtr> split(IterVarPtr axis, Expr factor,
                                          TailStrategy tail = TailStrategy::kGuard);
  /// As split, in both directions at once: outer loops first.
  std::array<IterVarPtr, 4> tile(IterVarPtr x, IterVarPtr y, Expr x_factor, Expr y_factor,
                                 TailStrategy tail = TailStrategy::kGuard);
  /// Merges two adjacent leaves (outer directly around inner).
  IterVarPtr fuse(IterVarPtr outer, IterVarPtr inner);
  /// Puts the named leaves into this order, in the places that they hold together.
  void reorder(std::vector<IterVarPtr> order);
  /// The axis's extent must be constant, and host/loops/loop_limits.h allow as many lanes; a vectorized
  /// reduction keeps one accumulator a lane.
  void vectorize(const IterVarPtr& axis);
  /// As many iterations as host/loops/loop_limits.h allows; a loop of unknown extent stays one.
  void unroll(const IterVarPtr& axis);
  /// Iterations run on the thread pool; outermost loops of root stages only. Each thread gets a range of
  /// them, or the same range of each of so many rounds: where an outer axis is fused into this one that the
  /// data of an iteration do not depend on, a core's data then stay in its cache.
  void parallel(const IterVarPtr& axis, int64_t rounds = 1);
  /// kBlock: at most three, outermost loops of root stages. kThread: the block's threads; a root stage's own
  /// loops say how many there are, stages attached inside it may use at most as many (those beyond wait).
  ///
  /// A block has one thread index. Several thread-bound leaves of a stage are its digits, outermost first: of
  /// leaves of 4 and 32 iterations, the first is index / 32, the second index % 32; they need not be
  /// adjacent. A stage attached inside some thread-bound leaves of its consumer has the threads of the
  /// remaining digits to itself; one of scope kShared always has the whole block's. kLocal stages bind
  /// reduction axes only.
  ///
  /// A reduction axis bound to threads: each thread reduces its part, then these threads combine theirs; all
  /// know a kLocal result, one stores it elsewhere. They must be the innermost digits, and a power of two up
  /// to 32 or a multiple of 32. Up to 32 threads need no barrier: rows on a digit of 4, columns on one of 32,
  /// and a kLocal maximum attached at the row's leaf whose reduction axis is bound to 32 threads.
  void bind(const IterVarPtr& axis, LoopKind kind);
  void set_scope(StorageScope scope) { memory_.scope = scope; }
  /// See StageMemory::row_padding.
  void pad_rows(int64_t elements) { memory_.row_padding = elements; }
  /// See StageMemory::double_buffered; the stage must be an elementwise one of scope kShared, its consumer's
  /// loop serial.
  void double_buffer() { memory_.double_buffered = true; }
  /// The leaves from `axis` inwards are m, n, k of exactly the instruction's size. The stage is a sum over k
  /// of a(m, k) * b(k, n) in f32 (for half precision: of casts to f32), of scope kFragment, attached inside
  /// the thread-bound leaves of a consumer; a and b are read from tiles in shared memory (any layout; pairs
  /// along k that lie together are loaded together) that are zero beyond their ends.
  ///
  ///   acc leaves:   …, k steps, m tiles, n tiles | m 16, n 8, k 8 or 16      tensorize(m 16)
  ///   its consumer: blocks…, warps…, group 8, member 4 | m tiles, n tiles, 2, 2
  ///     rows split into (…, 16), then (2, group 8); columns into (…, 8), then (member 4, 2)
  ///     group and member thread-bound, the innermost digits; acc.compute_at(consumer, member)
  ///
  /// The consumer then reads its own registers: lane group * 4 + member holds rows group and group + 8,
  /// columns member * 2 and member * 2 + 1 of each tile.
  void tensorize(const IterVarPtr& axis, MmaShape shape);
  /// For CPUs that multiply tiles (host/machine/tile_unit.h). The leaves from `axis` inwards are row tiles,
  /// column tiles (both few: their product and the operands must fit the registers), then m, n, k of one
  /// instruction; reduction leaves around them are steps along k. The stage is a sum over k of products
  /// cast(a(m, k)) * cast(b(k, n)), or of a sum of several such products, a and b in bf16, of scope kLocal
  /// and attached. a must be contiguous along k, and b(k, n) lie at k / s * stride + s * n + k % s, where s
  /// elements are side by side. Where the unit packs rows, a(m + 1, k) is read s elements behind a(m, k),
  /// where the operand must have its copy. The region is rounded up to whole tiles: a and b must have
  /// elements there (any).
  void tensorize_tiles(const IterVarPtr& axis, TileUnit unit);
  /// The stage is a sum in f32 of products cast(a) * cast(b), a and b in f16. The products of the leaves from
  /// the last of `axes` inwards, reduction ones around data ones of constant extent, are added in f16, by
  /// multiply-adds that round once where the target has them. Their sums are added in f16 too, from the axis
  /// before on, and so forth; those of the first axis are added in f32. With n products at the last axis and
  /// m sums at each of the others, an f16 sum is off by up to (n + m + …) * 2^-11 of the sum of magnitudes,
  /// and infinite beyond 65,504. CPUs only.
  void sum_in_half(std::vector<IterVarPtr> axes);
  /// The reduction leaves from `axis` inwards, which stand around data leaves of constant extents, are summed
  /// in accumulators of their own, which are then added to the stage's. Of n terms, added one by one, a sum
  /// is off by up to n roundings of what has been added before; of parts of p terms, by p + n / p. The stage
  /// is attached. CPUs only.
  void sum_in_parts(const IterVarPtr& axis);
  /// Each iteration of `axis`, a leaf around serial ones, reads the next `elements` of `source` in memory,
  /// perhaps several times; meanwhile it asks the memory for those of the next iteration, evenly spread. CPUs
  /// only.
  void fetch_next(const Operation& source, const IterVarPtr& axis, int64_t elements);
  /// Each iteration of the leaf `axis` asks for the cache line of that element of `tensor`, which a later
  /// iteration or tile reads. Indices are in terms of the op's axes, as its body; loops inside `axis` stand
  /// for their first iteration. They need not be within the tensor. CPUs only.
  void prefetch(const IterVarPtr& axis, Tensor tensor, std::vector<Expr> indices);
  /// At root, no output: computes and keeps only the box around the elements that are read, where lowering
  /// finds one, instead of all.
  void bound_to_reads() { region_.bounded = true; }
  /// Nobody reads rows of the result (its last axis but one) from `end` on, which only a run tells: they are
  /// left as they are. With tensorize_tiles, of the row tiles that registers accumulate at once as many are
  /// computed as hold the rows before it, and at most half as many more. CPUs only.
  void read_rows_below(Expr end);
  /// Terms of the stage's sum are zero where `condition`, in terms of the op's axes and reduction axes, is
  /// false: lowering leaves out iterations of the innermost leaf that it depends on. Any number of them. CPUs
  /// only.
  void skip_unless(Expr condition) { summation_.zero_unless.push_back(std::move(condition)); }
  /// Attached: of the op's `axis`, the last region that the consumer needs starts earlier, as with
  /// TailStrategy::kShiftInwards, instead of going beyond the end, so that computing it needs no conditions.
  void shift_region(const IterVarPtr& axis) { region_.shifted.push_back(axis); }
  void compute_at(Stage& consumer, IterVarPtr axis);
  /// Attached at `axis`, the parallel loop of `consumer`, but not made anew in each iteration: every thread
  /// that takes part makes all that the loop reads, before its first iteration, and keeps it. What takes the
  /// cores less time to make twice than to fetch from each other. Of constant extents. CPUs only.
  void compute_once_a_thread(Stage& consumer, IterVarPtr axis);
  void compute_inline();
  void compute_root();

 private:
  friend class Schedule;  // caches replace a stage's operation
  Operation op_;
  LoopOrder order_;
  LoopKinds kinds_;
  Attachment attachment_ = Attachment::root();
  StageMemory memory_;
  StageRegion region_;
  Summation summation_;
  Prefetches prefetches_;
  MatrixInstruction instruction_;
};

}  // namespace gantry
