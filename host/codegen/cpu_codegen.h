// How code is generated for a family of CPUs (host/machine/cpu_family.h): what its folder has of that, and
// what LLVM knows of its CPUs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/loops/stmt.h"
#include "host/machine/cpu_family.h"
#include "host/machine/target.h"

namespace llvm {
class IRBuilderBase;
class PassBuilder;
class Value;
}  // namespace llvm

namespace gantry {

namespace module_format {
enum class Architecture : uint8_t;  // device_runtime/schema/module.fbs
}

class TargetEmitter;  // host/codegen/target_emitter.h

/// Instructions on vectors of 16 f32 that make functions of few instructions.
struct VectorMath {
  /// Of the 16 elements of a table in a register (f32 or i32) those that the low four bits of `places` (i32)
  /// number.
  llvm::Value* (*look_up)(llvm::IRBuilderBase& ir, llvm::Value* table, llvm::Value* places);
  llvm::Value* (*reciprocal)(llvm::IRBuilderBase& ir, llvm::Value* x);  ///< to 14 bits
  /// x * 2^n; `n`: integers as f32. Results may be denormal, 0 or infinite.
  llvm::Value* (*scale)(llvm::IRBuilderBase& ir, llvm::Value* x, llvm::Value* n);
};

/// What code may use.
struct CpuInstructions {
  bool multiply_add = true;                 ///< in f32, as one
  bool half_conversions = true;             ///< f16 to f32 and back
  bool half_arithmetic = false;             ///< multiply-adds in f16
  bool bf16_rounding = false;               ///< of vectors in f32
  const VectorMath* vector_math = nullptr;  ///< null: none of them
  bool ordered_min_max = true;  ///< minima and maxima that take NaN and signs as IEEE 754-2019 does
  /// Of vectors of 64-bit integers to f32 in one rounding; false: by way of f64, which rounds before.
  bool long_conversions = true;
  /// Of vectors of floats to integers that are the nearest to what these cannot be, and 0 of NaN. False: LLVM
  /// goes lane by lane.
  bool saturating_conversions = true;
  /// A scalar f32 rounded to TF32, ties away from 0; null: it takes several instructions.
  llvm::Value* (*round_tf32)(llvm::IRBuilderBase& ir, llvm::Value* x) = nullptr;
};

using EmitTile = void (*)(TargetEmitter& emitter, const TileNode& node);

/// How an instruction that multiplies tiles is written.
struct TileEmitter {
  const TileInstruction* instruction;
  EmitTile emit;
};

struct CpuCodegen {
  const CpuFamily* family;
  module_format::Architecture in_modules;  ///< as module files have it
  std::string_view backend;                ///< LLVM's: "X86"
  std::string_view triple;                 ///< LLVM's
  std::string_view baseline;               ///< LLVM's CPU without any of the features

  /// Of LLVM's name of a CPU; nothing: it knows none of that name.
  std::optional<std::vector<std::string>> (*features_of_cpu)(std::string_view cpu);
  std::vector<std::string> (*cpu_names)();

  std::span<const TileEmitter> tile_emitters;  ///< of all its instructions
  CpuInstructions (*instructions)(const std::vector<std::string>& features);
  /// Features of LLVM that go without saying where those are.
  std::string_view (*implied)(const std::vector<std::string>& features);

  bool states_vector_width;  ///< functions say how wide vectors are: tuning may prefer narrower ones
  std::string_view assembly_comment;
  std::string_view linker_emulation;               ///< LLD's
  void (*add_passes)(llvm::PassBuilder& builder);  ///< to LLVM's; null: none
};

/// Of all families, in their order.
std::span<const CpuCodegen* const> cpu_codegens();
const CpuCodegen& codegen_of(const CpuFamily& family);
/// Of a CPU's code: not of a GPU's.
const CpuCodegen& cpu_codegen_of(const Target& target);

/// Of a target's code, a GPU's too: LLVM's name of architecture and system.
std::string triple_of(const Target& target);
/// Of a target's code, a GPU's too.
CpuInstructions instructions_of(const Target& target);
/// How the instruction of a unit is written; null if the target's CPU has it not.
EmitTile tile_emission(const Target& target, TileUnit unit);

}  // namespace gantry
