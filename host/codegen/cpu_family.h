// What the compiler knows of a family of CPUs. Each has a folder of its own (host/targets), which shows
// nothing but this description: generic code asks it, and no architecture's name.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/codegen/target.h"
#include "host/loops/stmt.h"
#include "host/tensor/tile_unit.h"

namespace llvm {
class PassBuilder;
}

namespace gantry {

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

/// What code may use.
struct CpuInstructions {
  bool multiply_add = true;      ///< in f32, as one
  bool half_conversions = true;  ///< f16 to f32 and back
  bool half_arithmetic = false;  ///< multiply-adds in f16
  bool bf16_rounding = false;    ///< of vectors in f32
  bool avx512_math = false;      ///< vectors of 64 bytes with comparisons to masks
  bool ordered_min_max = true;   ///< minima and maxima that take NaN and signs as IEEE 754-2019 does
};

/// How a user may ask for an arithmetic that a target has not: what its CPU lacks, and targets that have it.
struct MissingArithmetic {
  std::string_view lacks, targets;
};

struct CpuFamily {
  Architecture architecture;
  std::string_view name;                      ///< as boards report it: "x86_64"
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
  std::optional<TileUnit> (*tile_unit)(const std::vector<std::string>& features);
  CpuInstructions (*instructions)(const std::vector<std::string>& features);
  /// Features of LLVM that go without saying where those are.
  std::string_view (*implied)(const std::vector<std::string>& features);

  bool states_vector_width;  ///< functions say how wide vectors are: tuning may prefer narrower ones
  std::string_view assembly_comment;
  std::string_view linker_emulation;  ///< LLD's
  int max_page_bytes;
  void (*add_passes)(llvm::PassBuilder& builder);  ///< to LLVM's; null: none
  void (*emit_tile)(TargetEmitter& emitter, TileUnit unit, const TileNode& node);
};

/// All families, in the order in which their targets are listed.
std::span<const CpuFamily* const> cpu_families();
/// Of a CPU's code: not kCuda.
const CpuFamily& family_of(Architecture architecture);
inline const CpuFamily& family_of(const Target& target) {
  return family_of(target.architecture);
}
/// By the name that boards report; null if there is none.
const CpuFamily* find_family(std::string_view name);

/// Of a target's code, a GPU's too.
CpuInstructions instructions_of(const Target& target);

}  // namespace gantry
