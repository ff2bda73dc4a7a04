#include "host/codegen/llvm_target.h"

#include <fmt/format.h>
#include <llvm/MC/TargetRegistry.h>

#include "host/codegen/backends.h"
#include "host/codegen/cpu_codegen.h"
#include "host/codegen/gpu_codegen.h"
#include "host/support/error.h"

namespace gantry {
namespace {

/// The plain CPU of the architecture: whatever is more comes from the list of features, so that nothing is
/// used that a board is not checked for.
std::string baseline_cpu(const Target& target) {
  if (target.family == nullptr) return target.gpu_arch;
  return std::string(cpu_codegen_of(target).baseline);
}

std::string feature_string(const Target& target) {
  if (target.family == nullptr) return gpu_codegen_of(target).features(target);
  std::string result;
  for (const std::string& feature : target.features) {
    if (!result.empty()) result += ',';
    result += '+' + feature;
  }
  const std::string_view implied = cpu_codegen_of(target).implied(target.features);
  if (!implied.empty()) result += fmt::format(",{}", implied);
  return result;
}

}  // namespace

std::unique_ptr<llvm::TargetMachine> make_target_machine(const Target& target) {
  expect_code_generation(target);
  initialise_backends();
  const std::string triple = triple_of(target);
  std::string error;
  const llvm::Target* backend = llvm::TargetRegistry::lookupTarget(triple, error);
  internal_check(backend != nullptr, "code generation for {}: {}", target.name, error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  options.FunctionSections = true;
  std::unique_ptr<llvm::TargetMachine> machine(backend->createTargetMachine(
      triple, baseline_cpu(target), feature_string(target), options, llvm::Reloc::PIC_,
      llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
  internal_check(machine != nullptr, "code generation for {}: LLVM has no target machine", target.name);
  return machine;
}

void set_function_attributes(llvm::Function& function, const Target& target) {
  function.addFnAttr(llvm::Attribute::NoUnwind);
  function.addFnAttr("no-builtins");
  function.addFnAttr("target-cpu", baseline_cpu(target));
  if (target.family != nullptr) function.addFnAttr("tune-cpu", target.cpu);
  function.addFnAttr("target-features", feature_string(target));
  const std::string bits = std::to_string(target.machine.vector_bytes * 8);
  if (target.family != nullptr && cpu_codegen_of(target).states_vector_width) {
    // CPUs whose tuning prefers 256 bits would never use the wide registers otherwise.
    function.addFnAttr("prefer-vector-width", bits);
    function.addFnAttr("min-legal-vector-width", bits);
  }
}

}  // namespace gantry
