// Arithmetic of products, and which targets have it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "host/machine/cpu_family.h"
#include "host/machine/cpu_features.h"
#include "host/machine/gpu_family.h"
#include "host/machine/target.h"
#include "host/support/error.h"
#include "host/support/suggest.h"

namespace gantry {

Target host_target(const Target& target) {
  if (target.host) return *target.host;
  Target host = target;
  host.device = DeviceKind::kCpu;
  host.gpu_checks = false;
  host.precision = Precision::kFp32;
  return host;
}

namespace {

Precision cpu_precision(const Target& target, Precision precision) {
  const TileInstruction* tiles = tile_instruction(target, DType::kBF16);
  const CpuFamily& family = family_of(target);
  const std::string_view half = family.half.lacks;
  switch (precision) {
    case Precision::kAuto:
      return tiles && tiles->geometry->fast_parts ? Precision::kFp32Split : Precision::kFp32;
    case Precision::kFp32:
      return precision;
    case Precision::kBf16:
    case Precision::kFp32Split:
    case Precision::kFp32Split3:
      if (tiles) return precision;
      user_error(
          "--precision {}: target {} has no instructions for products of bf16 ({}). Take "
          "--precision fp32, or a target that has them, as {}",
          name_of(precision), target.name, family.bf16.lacks, family.bf16.targets);
    case Precision::kFp16:
      if (has_feature(target, half) || tile_instruction(target, DType::kF16)) return precision;
      user_error(
          "--precision fp16: target {} has no multiply-adds in half precision ({}). Take "
          "--precision fp32, or a target that has them, as {}",
          target.name, half, family.half.targets);
    default:
      user_error("--precision {}: is for GPUs; target {} is a CPU, which computes in fp32{}{}",
                 name_of(precision), target.name, tiles ? ", fp32-split, fp32-split3, bf16" : "",
                 has_feature(target, half) ? ", fp16" : "");
  }
}

Precision gpu_precision(const Target& target, Precision precision) {
  if (precision == Precision::kAuto || precision == Precision::kFp32) return Precision::kFp32;
  if (precision == Precision::kFp32Split || precision == Precision::kFp32Split3) {
    user_error("--precision {}: is for CPUs; a GPU computes in fp32, tf32, bf16 or fp16", name_of(precision));
  }
  const std::string_view lacks = gpu_family_of(target).lacks(target.gpu, precision);
  if (!lacks.empty()) {
    user_error("--precision {}: target {} has no tensor-core instructions for it; that needs {}",
               name_of(precision), target.name, lacks);
  }
  return precision;
}

constexpr std::array kPrecisions = {Precision::kAuto,      Precision::kFp32, Precision::kTf32,
                                    Precision::kBf16,      Precision::kFp16, Precision::kFp32Split,
                                    Precision::kFp32Split3};

}  // namespace

Target with_precision(Target target, Precision precision) {
  target.precision = target.for_gpu() ? gpu_precision(target, precision) : cpu_precision(target, precision);
  target.machine.half_products = !target.for_gpu() && target.precision == Precision::kFp16 &&
                                 has_feature(target, family_of(target).half.lacks);
  return target;
}

std::string_view name_of(Precision precision) {
  switch (precision) {
    case Precision::kAuto:
      return "auto";
    case Precision::kFp32:
      return "fp32";
    case Precision::kTf32:
      return "tf32";
    case Precision::kBf16:
      return "bf16";
    case Precision::kFp16:
      return "fp16";
    case Precision::kFp32Split:
      return "fp32-split";
    case Precision::kFp32Split3:
      return "fp32-split3";
  }
  internal_error("unknown precision");
}

Precision find_precision(std::string_view name) {
  std::vector<std::string> known;
  for (Precision p : kPrecisions) {
    if (name == name_of(p)) return p;
    known.emplace_back(name_of(p));
  }
  user_error("unknown precision '{}'{} known are {}", name.substr(0, 32),
             did_you_mean(name, known).empty() ? ";" : did_you_mean(name, known), fmt::join(known, ", "));
}

}  // namespace gantry
