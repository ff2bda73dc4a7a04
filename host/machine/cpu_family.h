// What the compiler knows of a family of CPUs, but for how their code is generated. Each has a folder of its
// own (host/targets), which shows nothing but this description and that: generic code asks them, and no
// architecture's name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/machine/target.h"
#include "host/machine/tile_unit.h"

namespace gantry {

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
/// it costs.
struct TileInstruction {
  const TileGeometry* geometry;
  /// Whether CPUs with these features have it.
  bool (*is_there)(const std::vector<std::string>& features);
  TileCostModel costs;
};

struct CpuFamily {
  std::string_view name;                      ///< as boards report it: "x86_64"
  uint16_t elf_machine;                       ///< in the headers of its programs
  std::string_view code;                      ///< what messages call its code: "x86-64"
  std::string_view least;                     ///< the feature without which there is no code
  std::string_view least_text;                ///< "SSE4.2 (x86-64-v2) or better"
  std::span<const std::string_view> too_old;  ///< LLVM's names of CPUs without it
  std::span<const NamedCpu> named;
  /// LLVM's names of features that matter, in the order in which targets list them.
  std::span<const std::string_view> features;
  std::span<const FeatureNeed> needs;
  std::span<const FeatureAlias> aliases;
  MissingArithmetic bf16, half;

  /// The higher, the better, before the number of features counts.
  int (*vector_class)(const std::vector<std::string>& features);
  MachineModel (*machine)(std::string_view cpu, const std::vector<std::string>& features);
  std::span<const TileInstruction* const> tile_instructions;  ///< the best first

  int max_page_bytes;
  int64_t last_cache_bytes;  ///< of large ones, for measuring memory behind it
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

}  // namespace gantry
