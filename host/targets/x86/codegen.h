/// Code for x86-64: host/codegen/cpu_codegen.h says what there is to know.
#pragma once

#include "host/codegen/cpu_codegen.h"

namespace gantry::x86 {

const CpuCodegen& codegen();

// Its parts, each of a file of its own.
std::optional<std::vector<std::string>> features_of_cpu(std::string_view cpu);
std::vector<std::string> cpu_names();
/// Of AVX-512 (F, DQ, VL).
const VectorMath& vector_math();

// The instructions that multiply tiles.
void emit_amx(TargetEmitter& emitter, const TileNode& node);
void emit_vdpbf16ps(TargetEmitter& emitter, const TileNode& node);
void emit_vpdpbusd(TargetEmitter& emitter, const TileNode& node);

}  // namespace gantry::x86
