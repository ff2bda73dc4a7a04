#include "host/targets/x86/tile_instructions.h"

#include "host/machine/cpu_features.h"
#include "host/targets/x86/tile_units.h"

namespace gantry::x86 {
namespace {

/// Fitted to 560 convolutions of eleven networks (relative error 14 %); weights come from the third level.
TileCosts amx_costs(const MachineModel& /*machine*/) {
  return {23, 85, 11.6, 0.12, 0.023, 2200, 0.1};
}

bool has_amx(const std::vector<std::string>& features) {
  return has_feature(features, "amx-bf16");
}

/// The share leaves room for weights that come from afar: in first-level data it is 0.95 (measured on
/// znver5).
TileCosts vdpbf16ps_costs(const MachineModel& machine) {
  constexpr double kShare = 0.85;  // of the peak, in the inner loop
  return {1 / (kShare * machine.bf16_per_cycle), 3, 8, 1 / machine.memory_bytes_per_cycle};
}

bool has_vdpbf16ps(const std::vector<std::string>& features) {
  return has_feature(features, "avx512bf16");
}

/// Issued as often as multiply-adds by the cores that have it twice. The share is that of VDPBF16PS, which
/// reads operands alike; a row's block of 64 bytes is copied by a load and a store.
TileCosts vpdpbusd_costs(const MachineModel& machine) {
  constexpr double kShare = 0.85;  // of the peak, in the inner loop
  return {1 / (kShare * machine.fma_per_cycle), 3, 2, 1 / machine.memory_bytes_per_cycle};
}

bool has_vpdpbusd(const std::vector<std::string>& features) {
  return has_feature(features, "avx512vnni") && has_feature(features, "avx512bw");
}

}  // namespace

const TileInstruction kAmx{
    .geometry = &kAmxGeometry, .is_there = has_amx, .costs = {.cycles = amx_costs, .other_slack = 1.15}};

/// Vectors want as much of the weights as tiles, with less to do.
const TileInstruction kVdpbf16ps{
    .geometry = &kVdpbf16psGeometry,
    .is_there = has_vdpbf16ps,
    .costs = {.cycles = vdpbf16ps_costs, .other_slack = 0.85, .weights_in_first_level = true}};

const TileInstruction kVpdpbusd{
    .geometry = &kVpdpbusdGeometry,
    .is_there = has_vpdpbusd,
    .costs = {.cycles = vpdpbusd_costs, .other_slack = 0.85, .weights_in_first_level = true}};

std::span<const TileInstruction* const> tile_instructions() {
  static constexpr const TileInstruction* kAll[] = {&kAmx, &kVdpbf16ps, &kVpdpbusd};
  return kAll;
}

}  // namespace gantry::x86
