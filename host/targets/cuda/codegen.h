/// Code for NVIDIA's GPUs: host/codegen/gpu_codegen.h says what there is to know.
#pragma once

#include "host/codegen/gpu_codegen.h"

namespace gantry::cuda {

const GpuCodegen& codegen();

/// A part of it, of a file of its own.
GpuImage build_image(std::span<const LoopKernel> kernels, const Target& target, int threads,
                     SpanRecorder* spans, std::span<const ForeignGpuText> foreign);

}  // namespace gantry::cuda
