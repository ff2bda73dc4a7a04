// One kernel's LLVM module. Private to host/codegen.
#pragma once

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/CodeGen.h>
#include <llvm/Target/TargetMachine.h>

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "host/codegen/target.h"
#include "host/loops/stmt.h"

namespace gantry {

struct CompiledModule {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<llvm::Module> module;
};

/// LLVM IR after optimisation.
void compile_kernel(const LoopKernel& kernel, const Target& target, CompiledModule& out);
/// The object or assembly file's bytes.
std::string generate_file(CompiledModule& compiled, llvm::CodeGenFileType type, const std::string& kernel);
/// A kernel without launches runs on the CPU beside the GPU.
const Target& code_target(const LoopKernel& kernel, const Target& target);
/// Internal error unless all are C identifiers, and unique.
void check_names(std::span<const LoopKernel> kernels);
/// Calls work(i) for i < count on `threads` threads; the first exception is thrown again.
void run_on_threads(size_t count, int threads, const std::function<void(size_t)>& work);

}  // namespace gantry
