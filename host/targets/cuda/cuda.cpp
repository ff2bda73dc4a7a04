#include "host/targets/cuda/cuda.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include "host/support/error.h"
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

std::string_view lacks(const GpuModel& gpu, Precision precision) {
  if (precision == Precision::kFp16) return gpu.compute_capability < 75 ? "sm_75 or newer" : "";
  return gpu.compute_capability < 80 ? "sm_80 or newer" : "";
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

const GpuFamily& family() {
  static const GpuFamily known{.name = "cuda",
                               .device = module_format::Device::Cuda,
                               .emulated = module_format::Device::CudaEmulated,
                               .backend = "NVPTX",
                               .code = "CUDA",
                               .language = "ptx",
                               .assembly_comment = "//",
                               .assembler = "ptxas",
                               .has_name = names_gpu_target,
                               .written = written_name,
                               .architecture = architecture_name,
                               .find = find_gpu_target,
                               .targets = known_gpu_targets,
                               .instructions = instructions,
                               .lacks = lacks,
                               .features = ptx_feature,
                               .build_image = build_image,
                               .find_assembler = find_assembler};
  return known;
}

}  // namespace gantry::cuda
