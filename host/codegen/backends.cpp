#include "host/codegen/backends.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <string_view>
#include <vector>

#include "host/codegen/cpu_codegen.h"
#include "host/codegen/gpu_codegen.h"
#include "host/support/error.h"

// llvm_backends.def calls GANTRY_LLVM_BACKEND for every back end that is linked.
extern "C" {
#define GANTRY_LLVM_BACKEND(name)          \
  void LLVMInitialize##name##TargetInfo(); \
  void LLVMInitialize##name##Target();     \
  void LLVMInitialize##name##TargetMC();   \
  void LLVMInitialize##name##AsmPrinter();
#include "llvm_backends.def"
#undef GANTRY_LLVM_BACKEND
}

namespace gantry {
namespace {

struct Backend {
  std::string_view llvm_name, name;
};

constexpr std::string_view kLinked[] = {
#define GANTRY_LLVM_BACKEND(name) #name,
#include "llvm_backends.def"
#undef GANTRY_LLVM_BACKEND
};

bool is_linked(const Backend& backend) {
  return std::ranges::find(kLinked, backend.llvm_name) != std::end(kLinked);
}

template <typename Codegen>
Backend backend_of(const Codegen& codegen) {
  return {codegen.backend, codegen.family->code};
}

Backend backend_of_code(const Target& target) {
  return target.family != nullptr ? backend_of(cpu_codegen_of(target)) : backend_of(gpu_codegen_of(target));
}

std::vector<Backend> all_backends() {
  std::vector<Backend> all;
  for (const CpuCodegen* codegen : cpu_codegens()) all.push_back(backend_of(*codegen));
  for (const GpuCodegen* codegen : gpu_codegens()) all.push_back(backend_of(*codegen));
  return all;
}

}  // namespace

bool can_generate(const Target& target) {
  return is_linked(backend_of_code(target)) && (target.host == nullptr || can_generate(*target.host));
}

void expect_code_generation(const Target& target) {
  if (target.host != nullptr) expect_code_generation(*target.host);
  const Backend wanted = backend_of_code(target);
  if (is_linked(wanted)) return;
  std::vector<std::string_view> names;
  for (const Backend& backend : all_backends()) {
    if (is_linked(backend)) names.push_back(backend.name);
  }
  user_error(
      "target {}: this gantry is built without code generation for {}; it has {}. Compile with a gantry that "
      "has all: GANTRY_LLVM_BACKENDS chooses when it is built",
      target.name, wanted.name, fmt::join(names, " and "));
}

void initialise_backends() {
  static std::once_flag once;
  std::call_once(once, [] {
#define GANTRY_LLVM_BACKEND(name)     \
  LLVMInitialize##name##TargetInfo(); \
  LLVMInitialize##name##Target();     \
  LLVMInitialize##name##TargetMC();   \
  LLVMInitialize##name##AsmPrinter();
#include "llvm_backends.def"
#undef GANTRY_LLVM_BACKEND
  });
}

}  // namespace gantry
