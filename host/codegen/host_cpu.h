// The CPU of this machine, as LLVM detects it.
#pragma once

#include <string>
#include <vector>

#include "host/machine/cpu_family.h"

namespace gantry {

/// The name of this machine's CPU and its relevant features, as far as the kernel lets this process use them:
/// asks Linux for the tile registers where the CPU has some, so that code for this machine may run here.
struct HostCpu {
  const CpuFamily* family;
  std::string name;
  std::vector<std::string> features;
};
HostCpu host_cpu();

}  // namespace gantry
