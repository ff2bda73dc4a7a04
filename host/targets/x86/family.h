/// Targets of x86-64: host/machine/cpu_family.h says what there is to know.
#pragma once

#include "host/machine/cpu_caches.h"
#include "host/machine/cpu_family.h"

namespace gantry::x86 {

const CpuFamily& family();

// The parts of its description, each of a file of its own.
std::span<const NamedCpu> named_cpus();
std::span<const CacheSizes> cache_sizes();
std::span<const std::string_view> feature_names();
std::span<const FeatureNeed> feature_needs();
MachineModel machine(std::string_view cpu, const std::vector<std::string>& features);

}  // namespace gantry::x86
