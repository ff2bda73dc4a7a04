// LLD's link-time optimisation, which gantry has no use for, asks for Debian's extension of LLVM: see
// StaticLLVM.cmake.
#include <llvm/Passes/PassPlugin.h>

llvm::PassPluginLibraryInfo getPollyPluginInfo();
llvm::PassPluginLibraryInfo getPollyPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "Polly", "absent", [](llvm::PassBuilder&) {}};
}
