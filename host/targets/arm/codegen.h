/// Code for AArch64: host/codegen/cpu_codegen.h says what there is to know.
#pragma once

#include "host/codegen/cpu_codegen.h"

namespace gantry::arm {

const CpuCodegen& codegen();

// Its parts, each of a file of its own.
std::optional<std::vector<std::string>> features_of_cpu(std::string_view cpu);
std::vector<std::string> cpu_names();
/// NEON's multiply-add takes one operand from any lane of a register: reductions that broadcast one scalar
/// after another are unrolled by the lanes of a register, and the scalars, which are neighbours, loaded as
/// one vector. An in-order core is then not kept waiting by a load in front of every product, and others have
/// a third fewer instructions to execute.
void add_passes(llvm::PassBuilder& builder);

// The instructions that multiply tiles.
void emit_bfmmla(TargetEmitter& emitter, const TileNode& node);

}  // namespace gantry::arm
