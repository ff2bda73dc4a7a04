// Lowering: schedule -> loop IR, and the pipeline of loop passes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "host/loops/stmt.h"
#include "host/loops/verify.h"
#include "host/tensor/schedule.h"

namespace gantry {

/// Called after every step with its name and the kernel so far (for `gantry ir --loops`), which has stages instead of
/// a body until its loops are made. May be empty.
using LoopObserver = std::function<void(std::string_view step, const LoopKernel&)>;

/// Why a schedule cannot be lowered: it asks for more than its device has of shared memory, of a thread's memory, or
/// of threads and blocks. That is no error: another schedule may do.
struct ScheduleMisfit {
  std::string reason;
};

/// All of lowering: the steps from the schedule to loops ("schedule" as it is given, inline_stages,
/// place_arguments, make_loops, assign_threads for a GPU, place_buffers, build_nests), then those of
/// run_loop_passes(). `inputs` are placeholders; the kernel's arguments are inputs then the schedule's
/// outputs. `verified`: after every step that leaves loops, what host/loops/verify.h asks for must hold.
/// Errors: an internal error names the stage whose attach point does not enclose its consumers, whose
/// vectorized extent is not constant, or one of whose vectorized or unrolled loops is longer than
/// host/loops/loop_limits.h allows; so it does of an output that is attached to a loop, but not read whole
/// there, in shared memory, made once a thread, bound to threads, or of which iterations that run at once
/// would add up the same sums; and of a stage into which more than 2^20 terms are inlined.
std::variant<LoopKernel, ScheduleMisfit> lower_kernel(const Schedule& schedule, const std::vector<Tensor>& inputs,
                                              const std::string& name, const LoopObserver& observe = {},
                                              bool verified = verifies_always());

/// The first part: infers the region of every attached stage from its consumers, builds the loops with their guards,
/// flattens tensors to buffers (row-major). A misfit is an internal error.
LoopKernel lower_schedule(const Schedule& schedule, const std::vector<Tensor>& inputs, const std::string& name,
                          const LoopObserver& observe = {});

/// The second part, the loop passes in order: simplify, bind_launches (host/loops/launch.h; where loops are bound to
/// blocks or threads), peel_edges, simplify, partition_guards, vectorize, transpose_blocks, unroll, narrow_vectors,
/// unmask_locals, unmask_updates, simplify, hoist_indices. The observer hears of the kernel as it is given, too
/// ("build_nests"). A misfit is an internal error.
LoopKernel run_loop_passes(LoopKernel kernel, const LoopObserver& observe = {},
                           bool verified = verifies_always());

// The passes, one file each in host/loops/.
/// Writes the first and last iterations of serial loops apart where guards of padding fail only there.
Stmt peel_edges(const Stmt& s);
/// Hoists guards of full tiles: `if (all of the tile is inside) nest without guard else nest with guard`.
/// Leaves launches as they are: on a GPU a guard is a predicate, and code that differs by thread is slow.
Stmt partition_guards(const Stmt& s);
/// Vectorized loops become ramps and broadcasts; guards inside become predicates; vectorized reductions keep
/// one accumulator a lane and combine them after the loop. What cannot be vectorized becomes a serial loop.
Stmt vectorize_loops(const Stmt& s);
/// Blocks that are read across their vectors are read along them and turned in registers.
Stmt transpose_blocks(const Stmt& s);
/// Unrolled loops of constant extent are written out.
Stmt unroll_loops(const Stmt& s);
/// Vector stores of which only the first lanes are on, in a power of two, become stores of so many lanes.
Stmt narrow_vectors(const Stmt& s);
/// Local buffers of which no lane that is off is ever stored are stored whole.
Stmt unmask_locals(const Stmt& s);
/// Vector updates of accumulators with lanes off become updates of all lanes, some by nothing.
Stmt unmask_updates(const Stmt& s);
/// Divisions by symbolic sizes in indices, with what is added to them, leave the serial loops that do not change them.
Stmt hoist_indices(const Stmt& s);
/// Index arithmetic, with ranges of loop variables; removes empty and single-iteration loops.
Stmt simplify_loops(const Stmt& s);
/// Why local buffers would take more of a thread's stack than there is on a CPU (kMaxStackBytes), once all
/// passes have run. Nothing for launches, whose threads have registers.
std::optional<ScheduleMisfit> misfit_of_locals(const Stmt& s);

}  // namespace gantry
