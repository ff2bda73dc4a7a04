/// Targets with GPUs of NVIDIA's: host/machine/gpu_family.h says what there is to know.
#pragma once

#include "host/machine/gpu_family.h"

namespace gantry::cuda {

/// Its parts that are about names: gpu_target.h.
const GpuFamily& family();

}  // namespace gantry::cuda
