#include "host/codegen/backends.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <string_view>

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
  Architecture architecture;
  std::string_view llvm_name, name;
};
constexpr Backend kBackends[] = {{Architecture::kX86_64, "X86", "x86-64"},
                                 {Architecture::kAArch64, "AArch64", "AArch64"},
                                 {Architecture::kCuda, "NVPTX", "CUDA"}};

constexpr std::string_view kLinked[] = {
#define GANTRY_LLVM_BACKEND(name) #name,
#include "llvm_backends.def"
#undef GANTRY_LLVM_BACKEND
};

bool is_linked(const Backend& backend) {
  return std::ranges::find(kLinked, backend.llvm_name) != std::end(kLinked);
}

const Backend& backend_of(const Target& target) {
  return *std::ranges::find(kBackends, target.architecture, &Backend::architecture);
}

}  // namespace

bool can_generate(const Target& target) {
  return is_linked(backend_of(target)) && (target.host == nullptr || can_generate(*target.host));
}

void expect_code_generation(const Target& target) {
  if (target.host != nullptr) expect_code_generation(*target.host);
  const Backend& wanted = backend_of(target);
  if (is_linked(wanted)) return;
  std::vector<std::string_view> names;
  for (const Backend& backend : kBackends) {
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
