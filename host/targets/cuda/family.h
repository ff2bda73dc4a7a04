/// Targets with GPUs of NVIDIA's: host/codegen/gpu_family.h says what there is to know.
#pragma once

#include "host/codegen/gpu_family.h"

namespace gantry::cuda {

/// Its parts that are about names: gpu_target.h.
const GpuFamily& family();

}  // namespace gantry::cuda
