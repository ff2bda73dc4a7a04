// One kernel -> its assembly, and how large its machine code is.
#include <llvm/Object/ObjectFile.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include "host/codegen/codegen.h"
#include "host/codegen/compiled_module.h"
#include "host/codegen/gpu_codegen.h"
#include "host/support/error.h"

namespace gantry {
namespace {

/// Adds what the object's sections hold of code and of constants.
void measure(const std::string& object, const std::string& kernel, KernelCode& code) {
  auto file = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(object, kernel));
  internal_check(static_cast<bool>(file), "kernel {}: its object file cannot be read: {}", kernel,
                 file ? "" : llvm::toString(file.takeError()));
  for (const llvm::object::SectionRef& section : (*file)->sections()) {
    const auto size = static_cast<int64_t>(section.getSize());
    if (section.isText()) code.code_bytes += size;
    if (llvm::cantFail(section.getName()).starts_with(".rodata")) code.table_bytes += size;
  }
}

KernelCode code_of(const LoopKernel& kernel, const Target& target) {
  if (calls_custom_code(kernel)) return {call_as_comments(kernel, assembly_comment(kernel, target))};
  CompiledModule compiled;
  compile_kernel(kernel, code_target(kernel, target), compiled);
  KernelCode code;
  if (const Target& on = code_target(kernel, target); on.family == nullptr) {
    code.language = gpu_codegen_of(on).language;
  } else {
    // Generating code changes the module.
    std::unique_ptr<llvm::Module> optimised = llvm::CloneModule(*compiled.module);
    measure(generate_file(compiled, llvm::CodeGenFileType::ObjectFile, kernel.name), kernel.name, code);
    compiled.module = std::move(optimised);
  }
  code.assembly = generate_file(compiled, llvm::CodeGenFileType::AssemblyFile, kernel.name);
  return code;
}

}  // namespace

std::vector<KernelCode> emit_code(std::span<const LoopKernel> kernels, const Target& target, int threads) {
  std::vector<KernelCode> codes(kernels.size());
  run_on_threads(kernels.size(), threads, [&](size_t i) { codes[i] = code_of(kernels[i], target); });
  return codes;
}

}  // namespace gantry
