// Modules for the stand-in of NVIDIA's driver: see fake_cuda/fake_cuda.h for the kernels that it knows.
#pragma once

#include <string>
#include <vector>

#include "tests/device_runtime/module_builder.h"

namespace gantry::runtime::testing {

/// A builder whose one variant is for CUDA, with "PTX" that has all the stand-in's kernels.
struct CudaModuleBuilder : ModuleBuilder {
  CudaModuleBuilder() {
    variant().device = module_format::Device::Cuda;
    variant().target = "cuda:sm_80/here";
    variant().gpu_arch = "sm_80";
    variant().gpu_workspace_bytes = constant(0);
    set_ptx("entry add_one\nentry scale\nentry accumulate\nentry fill_blocks\nentry zero\n");
  }
  void set_ptx(const std::string& text) {
    std::vector<std::byte> bytes(text.size());
    for (size_t i = 0; i < text.size(); ++i) bytes[i] = static_cast<std::byte>(text[i]);
    if (variant().ptx_segment < 0) {
      variant().ptx_segment = static_cast<int32_t>(segments.size());
      segments.emplace_back();
      manifest.segments.emplace_back(0, 0, module_format::Sha256{}, module_format::SegmentKind::Ptx);
    }
    segments[static_cast<size_t>(variant().ptx_segment)] = std::move(bytes);
  }
  uint32_t on_gpu(uint32_t buffer) {
    variant().buffers[buffer]->device = module_format::Device::Cuda;
    return buffer;
  }
  /// A step that launches `symbol` with one grid of `blocks` (a dimension) times `threads`; returns its
  /// kernel.
  module_format::KernelT& launch(const std::string& symbol, std::vector<uint32_t> buffers,
                                 std::vector<uint32_t> dims, uint32_t blocks,
                                 std::vector<std::string> origin = {}, uint32_t threads = 32) {
    call(symbol, std::move(buffers), std::move(dims), std::move(origin));
    module_format::KernelT& kernel = *variant().kernels.back();
    kernel.device = module_format::Device::Cuda;
    add_launch(kernel, symbol, blocks, threads);
    return kernel;
  }
  void add_launch(module_format::KernelT& kernel, const std::string& symbol, uint32_t blocks,
                  uint32_t threads = 32, int32_t loop = -1) {
    auto launch = std::make_unique<module_format::LaunchT>();
    launch->symbol = symbol;
    launch->threads = threads;
    launch->loop = loop;
    kernel.launches.push_back(std::move(launch));
    const uint32_t one = constant(1);
    auto& grids = last_call().grids;
    grids.insert(grids.end(), {blocks, one, one});
  }
  module_format::CallKernelT& last_call() { return *variant().steps.back()->action.AsCallKernel(); }
};

/// out = (in + 1) * weights, in: f32 (N, 4), weights 1 … 4, through the GPU's workspace.
inline CudaModuleBuilder cuda_module() {
  using module_format::DimOpcode;
  CudaModuleBuilder builder;
  const uint32_t n = builder.symbol("N"), four = builder.constant(4);
  const uint32_t elements = builder.combine(DimOpcode::Mul, n, four);
  const uint32_t bytes = builder.combine(DimOpcode::Mul, elements, four);
  const uint32_t blocks =
      builder.combine(DimOpcode::FloorDiv, builder.combine(DimOpcode::Add, elements, builder.constant(31)),
                      builder.constant(32));
  builder.add_input("in", {n, four});
  builder.add_output("out", {n, four});
  builder.variant().gpu_workspace_bytes = bytes;
  std::vector<float> weights(4096);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 4 + 1);
  const uint32_t in = builder.on_gpu(builder.input_buffer(0, bytes));
  const uint32_t out = builder.on_gpu(builder.output_buffer(0, bytes));
  const uint32_t constant = builder.on_gpu(builder.constant_buffer(weights));
  const uint32_t between = builder.on_gpu(builder.workspace_buffer(builder.constant(0), bytes));
  builder.launch("add_one", {in, between}, {elements}, blocks, {"Add_0"});
  builder.launch("scale", {between, constant, out}, {elements}, blocks, {"Mul_1"});
  return builder;
}

}  // namespace gantry::runtime::testing
