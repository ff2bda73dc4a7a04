/// Targets of AArch64: host/codegen/cpu_family.h says what there is to know.
#pragma once

#include "host/codegen/cpu_caches.h"
#include "host/codegen/cpu_family.h"

namespace gantry::arm {

const CpuFamily& family();

// The parts of its description, each of a file of its own.
std::span<const NamedCpu> named_cpus();
std::span<const CacheSizes> cache_sizes();
std::span<const std::string_view> feature_names();
std::span<const FeatureNeed> feature_needs();
std::optional<std::vector<std::string>> features_of_cpu(std::string_view cpu);
std::vector<std::string> cpu_names();
bool may_use(std::string_view feature, bool detected);
MachineModel machine(std::string_view cpu, const std::vector<std::string>& features);
/// NEON's multiply-add takes one operand from any lane of a register: reductions that broadcast one scalar
/// after another are unrolled by the lanes of a register, and the scalars, which are neighbours, loaded as
/// one vector. An in-order core is then not kept waiting by a load in front of every product, and others have
/// a third fewer instructions to execute.
void add_passes(llvm::PassBuilder& builder);

}  // namespace gantry::arm
