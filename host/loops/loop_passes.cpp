#include "host/loops/lower.h"

namespace gantry {

LoopKernel run_loop_passes(LoopKernel kernel, const LoopObserver& observe) {
  struct Pass {
    std::string_view name;
    Stmt (*run)(const Stmt&);
  };
  constexpr Pass kPasses[] = {
      {"simplify", simplify_loops},   {"partition_guards", partition_guards}, {"simplify_tiles", simplify_loops},
      {"vectorize", vectorize_loops}, {"unroll", unroll_loops},               {"simplify_last", simplify_loops},
  };
  for (const Pass& pass : kPasses) {
    kernel.body = pass.run(kernel.body);
    if (observe) observe(pass.name, kernel);
  }
  return kernel;
}

}  // namespace gantry
