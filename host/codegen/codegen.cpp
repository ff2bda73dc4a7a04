#include "host/codegen/codegen.h"

#include <llvm/Analysis/BasicAliasAnalysis.h>
#include <llvm/Analysis/ScopedNoAliasAA.h>
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

#include "host/codegen/compiled_module.h"
#include "host/codegen/cpu_codegen.h"
#include "host/codegen/gpu_codegen.h"
#include "host/codegen/kernel_cache.h"
#include "host/codegen/kernel_emitter.h"
#include "host/codegen/linker.h"
#include "host/codegen/llvm_target.h"
#include "host/loops/launch.h"
#include "host/support/error.h"
#include "host/support/start_thread.h"

namespace gantry {
namespace {

/// A library without functions: kernels are freestanding, so no pass may introduce memset or expf.
llvm::TargetLibraryInfoImpl no_library(const llvm::Module& module) {
  llvm::TargetLibraryInfoImpl library{llvm::Triple(module.getTargetTriple())};
  library.disableAllFunctions();
  return library;
}

/// All but the analysis of globals, which takes a barrier for something that writes no variable of the
/// module: it writes the shared ones, in the name of the other threads.
llvm::AAManager device_alias_analysis(llvm::TargetMachine& machine) {
  llvm::AAManager analysis;
  analysis.registerFunctionAnalysis<llvm::BasicAA>();
  analysis.registerFunctionAnalysis<llvm::ScopedNoAliasAA>();
  machine.registerDefaultAliasAnalyses(analysis);
  return analysis;
}

void optimise(llvm::Module& module, llvm::TargetMachine& machine, const Target& target) {
  llvm::PipelineTuningOptions tuning;
  // Loops arrive vectorised and unrolled as their schedules say; doing it again costs registers and time. But
  // a GPU's schedule says nothing of a CPU's vectors.
  const bool vectorises = target.device == DeviceKind::kEmulatedGpu && !target.gpu_checks;
  tuning.LoopVectorization = vectorises;
  tuning.SLPVectorization = vectorises;
  tuning.LoopInterleaving = false;
  tuning.LoopUnrolling = vectorises;
  tuning.CallGraphProfile = false;
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine, tuning);
  const auto add_passes = target.device == DeviceKind::kCpu ? cpu_codegen_of(target).add_passes : nullptr;
  if (add_passes != nullptr) add_passes(builder);
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(no_library(module)); });
  if (target.device == DeviceKind::kGpu)
    functions.registerPass([&] { return device_alias_analysis(machine); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
}

/// Kernels of a GPU end in one text, so whatever is private to one carries its name.
void name_private_symbols(llvm::Module& module, const std::string& kernel) {
  auto rename = [&](llvm::GlobalValue& value) {
    if (!value.hasLocalLinkage() || value.getName().starts_with(kernel)) return;
    std::string name = kernel + "_" + value.getName().str();
    std::ranges::replace(name, '.', '_');
    value.setName(name);
  };
  for (llvm::Function& function : module) rename(function);
  for (llvm::GlobalVariable& variable : module.globals()) rename(variable);
}

}  // namespace

void start_module(const std::string& name, const Target& target, CompiledModule& out) {
  out.machine = make_target_machine(target);
  out.module = std::make_unique<llvm::Module>(name, out.context);
  out.module->setTargetTriple(triple_of(target));
  out.module->setDataLayout(out.machine->createDataLayout());
  out.module->setPICLevel(llvm::PICLevel::BigPIC);
}

void finish_module(CompiledModule& compiled, const Target& target) {
  std::string problem;
  llvm::raw_string_ostream stream(problem);
  internal_check(!llvm::verifyModule(*compiled.module, &stream), "kernel {}: invalid LLVM IR: {}",
                 compiled.module->getName().str(), problem);
  optimise(*compiled.module, *compiled.machine, target);
}

const Target& code_target(const LoopKernel& kernel, const Target& target) {
  return target.host && !is_gpu_kernel(kernel) ? *target.host : target;
}

bool is_gpu_kernel(const LoopKernel& kernel) {
  bool found = false;
  walk(kernel.body, [&](const Stmt& s) { found = found || s->kind == StmtKind::kLaunch; }, {});
  return found;
}

void compile_kernel(const LoopKernel& kernel, const Target& target, CompiledModule& out) {
  start_module(kernel.name, target, out);
  if (target.device == DeviceKind::kEmulatedGpu) {
    const LoopKernel emulated = emulate_launches(kernel, target.gpu_checks);
    emit_kernel(*out.module, emulated, target);
  } else {
    emit_kernel(*out.module, kernel, target);
  }
  finish_module(out, target);
  if (target.device == DeviceKind::kGpu) name_private_symbols(*out.module, kernel.name);
}

std::string generate_file(CompiledModule& compiled, llvm::CodeGenFileType type, const std::string& kernel) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  passes.add(new llvm::TargetLibraryInfoWrapperPass(no_library(*compiled.module)));
  const bool refused = compiled.machine->addPassesToEmitFile(passes, stream, nullptr, type);
  internal_check(!refused, "kernel {}: LLVM cannot write this kind of file", kernel);
  passes.run(*compiled.module);
  return std::string(bytes.begin(), bytes.end());
}

namespace {

/// What is linked where a model needs no kernel at all (only views, or a known result): the linker wants a
/// file.
std::string empty_object(const Target& target) {
  CompiledModule compiled;
  start_module("none", target, compiled);
  return generate_file(compiled, llvm::CodeGenFileType::ObjectFile, "none");
}

bool is_c_identifier(const std::string& name) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && letter(name[0]) &&
         std::ranges::all_of(name, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

}  // namespace

bool calls_custom_code(const LoopKernel& kernel) {
  return !kernel.stages.empty();
}

std::string call_as_comments(const LoopKernel& kernel, std::string_view comment) {
  std::string text;
  for (size_t begin = 0; begin < kernel.stages.size();) {
    const size_t end = std::min(kernel.stages.find('\n', begin), kernel.stages.size());
    text += fmt::format("{} {}\n", comment, kernel.stages.substr(begin, end - begin));
    begin = end + 1;
  }
  return text;
}

void check_names(std::span<const LoopKernel> kernels) {
  std::set<std::string> names;
  for (const LoopKernel& kernel : kernels) {
    internal_check(is_c_identifier(kernel.name), "kernel '{}': the name is no C identifier", kernel.name);
    internal_check(names.insert(kernel.name).second, "kernel {}: the name is not unique", kernel.name);
  }
}

void run_on_threads(size_t count, int threads, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  auto run = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = count;
      }
    }
  };
  std::vector<std::thread> workers;
  const int most = std::clamp(threads, 1, static_cast<int>(std::max<size_t>(count, 1)));
  int running = 1;
  while (running < most && start_thread(workers, run)) ++running;
  run();
  for (std::thread& worker : workers) worker.join();
  if (failure) std::rethrow_exception(failure);
}

namespace {

std::string build_object(const LoopKernel& kernel, const Target& target, KernelCache* cache,
                         SpanRecorder* spans) {
  TimedSpan span(spans, "codegen", kernel.name);
  KernelCache::Key key{};
  if (cache != nullptr) {
    key = KernelCache::key_of(kernel, target, "object");
    if (auto object = cache->find(key)) {
      span.say("from", "the cache");
      return std::move(*object);
    }
  }
  CompiledModule compiled;
  compile_kernel(kernel, target, compiled);
  std::string object = generate_file(compiled, llvm::CodeGenFileType::ObjectFile, kernel.name);
  if (cache != nullptr) cache->store(key, object);
  return object;
}

}  // namespace

CodeImage build_image(std::span<const LoopKernel> kernels, const Target& target, int threads,
                      KernelCache* cache, SpanRecorder* spans) {
  return build_image(kernels, target, threads, cache, spans, {});
}

CodeImage build_image(std::span<const LoopKernel> kernels, const Target& target, int threads, KernelCache* cache,
                      SpanRecorder* spans, const ForeignObjects& foreign) {
  check_names(kernels);
  internal_check(target.family != nullptr, "target {}: not a CPU", target.name);
  std::vector<std::string> objects(kernels.size());
  run_on_threads(kernels.size(), threads,
                 [&](size_t i) { objects[i] = build_object(kernels[i], target, cache, spans); });
  if (cache != nullptr) cache->trim();
  objects.insert(objects.end(), foreign.objects.begin(), foreign.objects.end());
  if (objects.empty()) objects.push_back(empty_object(target));
  const TimedSpan span(spans, "codegen", "link");
  return {link_image(objects, target, foreign.names)};
}

GpuImage build_gpu_image(std::span<const LoopKernel> kernels, const Target& target, int threads,
                         SpanRecorder* spans) {
  internal_check(target.device == DeviceKind::kGpu, "target {}: not a GPU", target.name);
  return gpu_codegen_of(target).build_image(kernels, target, threads, spans, {});
}

std::string emit_llvm_text(const LoopKernel& kernel, const Target& target) {
  if (calls_custom_code(kernel)) return call_as_comments(kernel, ";");
  CompiledModule compiled;
  compile_kernel(kernel, code_target(kernel, target), compiled);
  std::string text;
  llvm::raw_string_ostream stream(text);
  compiled.module->print(stream, nullptr);
  return text;
}

std::string emit_assembly(const LoopKernel& kernel, const Target& target, bool comments) {
  if (calls_custom_code(kernel)) return call_as_comments(kernel, assembly_comment(kernel, target));
  CompiledModule compiled;
  compile_kernel(kernel, code_target(kernel, target), compiled);
  compiled.machine->Options.MCOptions.AsmVerbose = comments;
  return generate_file(compiled, llvm::CodeGenFileType::AssemblyFile, kernel.name);
}

std::string_view assembly_comment(const LoopKernel& kernel, const Target& target) {
  const Target& code = code_target(kernel, target);
  return code.family != nullptr ? cpu_codegen_of(code).assembly_comment
                                : gpu_codegen_of(code).assembly_comment;
}

}  // namespace gantry
