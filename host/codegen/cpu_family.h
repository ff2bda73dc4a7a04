// What the compiler knows of a family of CPUs. Each has a folder of its own (host/targets), which shows
// nothing but this description: generic code asks it, and no architecture's name.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/codegen/target.h"
#include "host/loops/stmt.h"
#include "host/machine/tile_unit.h"

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

/// A target with a name of its own.
struct NamedCpu {
  std::string_view name;
  std::string_view cpu;  ///< LLVM's name; empty: `name` is another one's with features added
  std::string_view description;
};

struct FeatureNeed {
  std::string_view feature, needs;  ///< directly
};

struct FeatureAlias {
  std::string_view written, feature;
  bool in_names = false;  ///< targets' names have it in place of LLVM's
};

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
  /// A scalar f32 rounded to TF32, ties away from 0; null: it takes several instructions.
  llvm::Value* (*round_tf32)(llvm::IRBuilderBase& ir, llvm::Value* x) = nullptr;
};

/// How a user may ask for an arithmetic that a target has not: what its CPU lacks, and targets that have it.
struct MissingArithmetic {
  std::string_view lacks, targets;
};

/// What an instruction that multiplies tiles costs, in cycles: an instruction with what it loads; a tile of
/// results with its epilogue; splitting a block of a row of the operand, for each part; a byte of the
/// weights; a byte of the operand and the result; a kernel; a byte of split rows that go through the
/// third-level cache.
struct TileCosts {
  double dot, tile, part, weight_byte, byte = 0, kernel = 0, far_byte = 0;
};

struct TileCostModel {
  TileCosts (*cycles)(const MachineModel& machine);
  /// What multiply-adds take in the same networks, by what their models predict.
  double other_slack = 1;
  /// Of weights that blocks of rows read in turn as much goes by at once as the first-level cache holds.
  bool weights_in_first_level = false;
};

/// An instruction that multiplies tiles, as a value: what it computes and how operands lie, who has it, what
/// it costs, how it is emitted.
struct TileInstruction {
  const TileGeometry* geometry;
  /// Whether CPUs with these features have it.
  bool (*is_there)(const std::vector<std::string>& features);
  TileCostModel costs;
  void (*emit)(TargetEmitter& emitter, const TileNode& node);
};

struct CpuFamily {
  std::string_view name;                      ///< as boards report it: "x86_64"
  uint16_t elf_machine;                       ///< in the headers of its programs
  module_format::Architecture in_modules;     ///< as module files have it
  std::string_view backend;                   ///< LLVM's: "X86"
  std::string_view code;                      ///< what messages call its code: "x86-64"
  const char* triple;                         ///< LLVM's
  std::string_view baseline;                  ///< LLVM's CPU without any of the features
  std::string_view least;                     ///< the feature without which there is no code
  std::string_view least_text;                ///< "SSE4.2 (x86-64-v2) or better"
  std::span<const std::string_view> too_old;  ///< names of LLVM without it
  std::span<const NamedCpu> named;
  /// LLVM's names of features that matter, in the order in which targets list them.
  std::span<const std::string_view> features;
  std::span<const FeatureNeed> needs;
  std::span<const FeatureAlias> aliases;
  MissingArithmetic bf16, half;

  std::optional<std::vector<std::string>> (*features_of_cpu)(std::string_view cpu);
  std::vector<std::string> (*cpu_names)();
  /// Of this machine, which is one of the family: is `feature` usable, where LLVM's detection says
  /// `detected`?
  bool (*may_use)(std::string_view feature, bool detected);
  /// The higher, the better, before the number of features counts.
  int (*vector_class)(const std::vector<std::string>& features);
  MachineModel (*machine)(std::string_view cpu, const std::vector<std::string>& features);
  std::span<const TileInstruction* const> tile_instructions;  ///< the best first
  CpuInstructions (*instructions)(const std::vector<std::string>& features);
  /// Features of LLVM that go without saying where those are.
  std::string_view (*implied)(const std::vector<std::string>& features);

  bool states_vector_width;  ///< functions say how wide vectors are: tuning may prefer narrower ones
  std::string_view assembly_comment;
  std::string_view linker_emulation;  ///< LLD's
  int max_page_bytes;
  int64_t last_cache_bytes;                        ///< of large ones, for measuring memory behind it
  void (*add_passes)(llvm::PassBuilder& builder);  ///< to LLVM's; null: none
};

/// All families, in the order in which their targets are listed.
std::span<const CpuFamily* const> cpu_families();
/// Of a CPU's code: not of a GPU's.
const CpuFamily& family_of(const Target& target);
/// By the name that boards report; null if there is none.
const CpuFamily* find_family(std::string_view name);

/// The best that a target's CPU has for operands of that type; null: none, or the code is a GPU's.
const TileInstruction* tile_instruction(const Target& target, DType element);
/// That of a unit, if the target's CPU has it; else null.
const TileInstruction* tile_instruction(const Target& target, TileUnit unit);
/// Of a target's code, a GPU's too.
CpuInstructions instructions_of(const Target& target);

}  // namespace gantry
