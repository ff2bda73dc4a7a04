#include "host/codegen/codegen.h"

#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/TargetParser/Triple.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <set>
#include <thread>

#include "host/codegen/kernel_emitter.h"
#include "host/codegen/linker.h"
#include "host/codegen/llvm_target.h"
#include "host/support/error.h"

namespace gantry {
namespace {

/// One kernel's module, after optimisation.
struct CompiledModule {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<llvm::Module> module;
};

/// A library without functions: kernels are freestanding, so no pass may introduce memset or expf.
llvm::TargetLibraryInfoImpl no_library(const llvm::Module& module) {
  llvm::TargetLibraryInfoImpl library{llvm::Triple(module.getTargetTriple())};
  library.disableAllFunctions();
  return library;
}

void optimise(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::PipelineTuningOptions tuning;
  // Loops arrive vectorised and unrolled as their schedules say; doing it again costs registers and time.
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  tuning.LoopInterleaving = false;
  tuning.LoopUnrolling = false;
  tuning.CallGraphProfile = false;
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine, tuning);
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(no_library(module)); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
}

void start_module(const std::string& name, const Target& target, CompiledModule& out) {
  out.machine = make_target_machine(target);
  out.module = std::make_unique<llvm::Module>(name, out.context);
  out.module->setTargetTriple(target.triple);
  out.module->setDataLayout(out.machine->createDataLayout());
  out.module->setPICLevel(llvm::PICLevel::BigPIC);
}

void compile(const LoopKernel& kernel, const Target& target, CompiledModule& out) {
  start_module(kernel.name, target, out);
  KernelEmitter(*out.module, kernel, target).emit();
  std::string problem;
  llvm::raw_string_ostream stream(problem);
  internal_check(!llvm::verifyModule(*out.module, &stream), "kernel {}: invalid LLVM IR: {}", kernel.name,
                 problem);
  optimise(*out.module, *out.machine);
}

std::string generate(CompiledModule& compiled, llvm::CodeGenFileType type, const std::string& kernel) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  passes.add(new llvm::TargetLibraryInfoWrapperPass(no_library(*compiled.module)));
  const bool refused = compiled.machine->addPassesToEmitFile(passes, stream, nullptr, type);
  internal_check(!refused, "kernel {}: LLVM cannot write this kind of file", kernel);
  passes.run(*compiled.module);
  return std::string(bytes.begin(), bytes.end());
}

/// What is linked where a model needs no kernel at all (only views, or a known result): the linker wants a
/// file.
std::string empty_object(const Target& target) {
  CompiledModule compiled;
  start_module("none", target, compiled);
  return generate(compiled, llvm::CodeGenFileType::ObjectFile, "none");
}

bool is_c_identifier(const std::string& name) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && letter(name[0]) &&
         std::ranges::all_of(name, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

void check_names(std::span<const LoopKernel> kernels) {
  std::set<std::string> names;
  for (const LoopKernel& kernel : kernels) {
    internal_check(is_c_identifier(kernel.name), "kernel '{}': the name is no C identifier", kernel.name);
    internal_check(names.insert(kernel.name).second, "kernel {}: the name is not unique", kernel.name);
  }
}

}  // namespace

CodeImage build_image(std::span<const LoopKernel> kernels, const Target& target, int threads) {
  check_names(kernels);
  internal_check(target.architecture != Architecture::kCuda, "target {}: not a CPU", target.name);
  std::vector<std::string> objects(kernels.size());
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  auto work = [&] {
    for (size_t i = next++; i < kernels.size(); i = next++) {
      try {
        CompiledModule compiled;
        compile(kernels[i], target, compiled);
        objects[i] = generate(compiled, llvm::CodeGenFileType::ObjectFile, kernels[i].name);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = kernels.size();
      }
    }
  };
  std::vector<std::thread> workers;
  const int count = std::clamp(threads, 1, static_cast<int>(std::max<size_t>(kernels.size(), 1)));
  for (int i = 1; i < count; ++i) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
  if (failure) std::rethrow_exception(failure);
  if (objects.empty()) objects.push_back(empty_object(target));
  return {link_image(objects, target)};
}

std::string emit_llvm_text(const LoopKernel& kernel, const Target& target) {
  CompiledModule compiled;
  compile(kernel, target, compiled);
  std::string text;
  llvm::raw_string_ostream stream(text);
  compiled.module->print(stream, nullptr);
  return text;
}

std::string emit_assembly(const LoopKernel& kernel, const Target& target) {
  CompiledModule compiled;
  compile(kernel, target, compiled);
  return generate(compiled, llvm::CodeGenFileType::AssemblyFile, kernel.name);
}

}  // namespace gantry
