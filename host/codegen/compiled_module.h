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
#include <string_view>

#include "host/codegen/codegen.h"
#include "host/loops/stmt.h"
#include "host/machine/target.h"

namespace gantry {

struct CompiledModule {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<llvm::Module> module;
};

/// An empty module for the target.
void start_module(const std::string& name, const Target& target, CompiledModule& out);
/// Verifies and optimises what is in it. Internal errors name the module.
void finish_module(CompiledModule& compiled, const Target& target);
/// LLVM IR after optimisation.
void compile_kernel(const LoopKernel& kernel, const Target& target, CompiledModule& out);
/// The object or assembly file's bytes.
std::string generate_file(CompiledModule& compiled, llvm::CodeGenFileType type, const std::string& kernel);
/// Whether the kernel calls code that the user wrote: it has no loop nest, and its stages say what it calls.
bool calls_custom_code(const LoopKernel& kernel);
/// Those of a kernel that does, as comments.
std::string call_as_comments(const LoopKernel& kernel, std::string_view comment);
/// Objects of an image that are not made of loop nests.
struct ForeignObjects {
  std::vector<std::string> objects;
  std::string names;  ///< of what users made among them, for messages
};
/// As build_image, with those.
CodeImage build_image(std::span<const LoopKernel> kernels, const Target& target, int threads, KernelCache* cache,
                      SpanRecorder* spans, const ForeignObjects& foreign);
/// A kernel without launches runs on the CPU beside the GPU.
const Target& code_target(const LoopKernel& kernel, const Target& target);
/// Internal error unless all are C identifiers, and unique.
void check_names(std::span<const LoopKernel> kernels);
/// Calls work(i) for i < count on `threads` threads; the first exception is thrown again.
void run_on_threads(size_t count, int threads, const std::function<void(size_t)>& work);

}  // namespace gantry
