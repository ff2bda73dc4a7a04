// The CPU of this machine, as the runtime detects it: a model compiled for `native` and one that is compiled
// to be run here are for the same target, whatever LLVM would call the CPU.
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
