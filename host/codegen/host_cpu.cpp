#include "host/codegen/host_cpu.h"

#include "device_runtime/src/cpu_info.h"
#include "host/support/error.h"

namespace gantry {

HostCpu host_cpu() {
  const runtime::CpuInfo& cpu = runtime::cpu_info();
  const CpuFamily* family = find_family(cpu.architecture);
  internal_check(family != nullptr, "this machine is {}, for which there is no family of targets",
                 cpu.architecture);
  return {family, cpu.llvm_name, cpu.features};
}

}  // namespace gantry
