#include "host/targets/cuda/codegen.h"

#include <fmt/format.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include "host/support/error.h"
#include "host/targets/cuda/family.h"
#include "host/targets/cuda/gpu_target.h"
#include "host/targets/cuda/ptxas.h"
#include "module_generated.h"

namespace gantry::cuda {
namespace {

llvm::Value* round_tf32(llvm::IRBuilderBase& ir, llvm::Value* x) {
  return ir.CreateBitCast(ir.CreateIntrinsic(llvm::Intrinsic::nvvm_f2tf32_rna, {}, {x}), x->getType());
}

CpuInstructions instructions(const GpuModel& gpu) {
  CpuInstructions known;
  known.bf16_rounding = gpu.compute_capability >= 80;
  if (gpu.compute_capability >= 80) known.round_tf32 = round_tf32;
  return known;
}

/// LLVM's feature for the version of PTX that a target's code is of.
std::string features(const Target& target) {
  return fmt::format("+ptx{}", ptx_version(target));
}

GpuAssembler find_assembler() {
  GpuAssembler assembler;
  try {
    if (const auto path = find_ptxas()) {
      assembler.path = path->string();
      assembler.version = ptxas_version(*path);
    } else {
      assembler.problem = "not found; drivers assemble the kernels of GPUs when they load a module";
    }
  } catch (const Error& error) {
    assembler.problem = error.what();
  }
  return assembler;
}

}  // namespace

const GpuCodegen& codegen() {
  static const GpuCodegen known{.family = &family(),
                                .device = module_format::Device::Cuda,
                                .emulated = module_format::Device::CudaEmulated,
                                .backend = "NVPTX",
                                .triple = "nvptx64-nvidia-cuda",
                                .language = "ptx",
                                .assembly_comment = "//",
                                .assembler = "ptxas",
                                .instructions = instructions,
                                .features = features,
                                .build_image = build_image,
                                .find_assembler = find_assembler};
  return known;
}

}  // namespace gantry::cuda
