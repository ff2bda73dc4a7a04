// Loop IR of GPUs: launches.
//
// A scheduled root nest becomes a LaunchNode: its block loops the grid, its thread loops the block's threads.
// Code generation for a GPU takes kernels in that form; emulate_launches turns them into loops for a CPU.
#pragma once

#include <optional>
#include <vector>

#include "host/loops/lower.h"

namespace gantry {

/// Nests of block and thread loops become launches; thread loops inside become conditions on the thread index.
///
///   block for b in [0, +n)                  launch b < n, 1, 1, t < 128 threads
///     thread for t in [0, +128)       =>      x[b * 128 + t] = …
///       x[b * 128 + t] = …                    if t < 32: …
///     thread for u in [0, +32): …
///
/// Errors: an internal error names the kernel's nest that is bound to more than three block loops, or to threads of
/// different counts at its root.
Stmt bind_launches(const Stmt& s);
/// Why the launches that bind_launches() would make ask for more threads or shared memory than a block has.
std::optional<ScheduleMisfit> misfit_of_launches(const Stmt& s);

/// The kernel for a CPU: blocks in parallel, the threads of a block in loops that end at every barrier; shuffles
/// and matrix instructions become loops over the lanes. With `checks`, barriers stay, and blocks run in order.
LoopKernel emulate_launches(LoopKernel kernel, bool checks);

/// Registers and memory for the host's side.
struct LaunchShape {
  std::array<Expr, 3> grid;  ///< in terms of the kernel's symbols
  int64_t threads = 0;
  int64_t shared_bytes = 0;
  int loop = -1;  ///< index into LaunchPlan::loops
};
struct LaunchPlan {
  std::vector<LaunchShape> launches;  ///< in order
  std::vector<Expr> loops;            ///< iteration counts of the serial loops around launches
};
/// What the host must do to run a kernel made of launches. An internal error if its body is anything else than
/// launches and serial loops directly around launches.
LaunchPlan plan_launches(const LoopKernel& kernel);

}  // namespace gantry
