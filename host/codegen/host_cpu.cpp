#include "host/codegen/host_cpu.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>

#include "host/codegen/cpu_codegen.h"
#include "host/support/error.h"

namespace gantry {

HostCpu host_cpu() {
  HostCpu host;
  const std::string architecture = llvm::Triple(llvm::sys::getProcessTriple()).getArchName().str();
  host.family = find_family(architecture);
  internal_check(host.family != nullptr, "this machine is {}, for which there is no family of targets",
                 architecture);
  host.name = llvm::sys::getHostCPUName().str();
  const llvm::StringMap<bool, llvm::MallocAllocator> detected = llvm::sys::getHostCPUFeatures();
  const auto may_use = codegen_of(*host.family).may_use;
  for (std::string_view feature : host.family->features) {
    const auto it = detected.find(llvm::StringRef(feature.data(), feature.size()));
    if (may_use(feature, it != detected.end() && it->second)) host.features.emplace_back(feature);
  }
  return host;
}

}  // namespace gantry
