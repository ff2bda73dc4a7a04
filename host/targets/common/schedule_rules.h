// Schedule rules: tensor expressions of one kernel -> how a target computes them.
#pragma once

#include <vector>

#include "host/machine/target.h"
#include "host/tensor/schedule.h"

namespace gantry {

/// The default schedule of a kernel with these outputs: that of the first rule that takes it
/// (host/targets/common/kernel_rules.def), which the schedule names. Choices come from the target's machine model.
Schedule make_schedule(const std::vector<Tensor>& outputs, const Target& target);
/// A GPU's schedule without tiles (the rule `plain`), for kernels whose default one asks for more than a
/// block has.
Schedule make_plain_gpu_schedule(const std::vector<Tensor>& outputs, const Target& target);

}  // namespace gantry
