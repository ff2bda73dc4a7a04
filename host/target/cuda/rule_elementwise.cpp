// Elementwise, broadcasting and data-movement stages: bound by memory, so what counts is that neighbouring
// threads touch neighbouring elements.
#include "host/target/cuda/rules.h"

namespace gantry::cuda {

void schedule_elementwise(Stage& stage, const Target& target) {
  (void)target;
  bind_flat(stage, stage.axes(), kDefaultThreads);
}

}  // namespace gantry::cuda
