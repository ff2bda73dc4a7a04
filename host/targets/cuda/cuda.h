/// Targets with GPUs of NVIDIA's: host/codegen/gpu_family.h says what there is to know.
#pragma once

#include "host/codegen/gpu_family.h"

namespace gantry::cuda {

const GpuFamily& family();

// The parts of its description, each of a file of its own; those of names: gpu_target.h.
GpuImage build_image(std::span<const LoopKernel> kernels, const Target& target, int threads,
                     SpanRecorder* spans, std::span<const ForeignGpuText> foreign);

}  // namespace gantry::cuda
