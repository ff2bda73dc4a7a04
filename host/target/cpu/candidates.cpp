#include "host/target/cpu/candidates.h"

#include <fmt/format.h>

#include "host/codegen/cpu_features.h"
#include "host/ops/tiles.h"
#include "host/passes/form_choice.h"
#include "host/target/cpu/conv_model.h"
#include "host/target/cpu/dense_model.h"
#include "host/target/cpu/dense_work.h"
#include "host/target/cpu/tile_policy.h"

namespace gantry::cpu {
namespace {

constexpr ConvAlgorithm kWinograd[] = {ConvAlgorithm::kWinograd2, ConvAlgorithm::kWinograd4,
                                       ConvAlgorithm::kWinograd6};

Candidate direct(ConvAttrs attrs, const TensorType& data, const TensorType& result, const MachineModel& machine) {
  attrs.algorithm = ConvAlgorithm::kDirect;
  const bool half = prefers_half(attrs, data, result, machine);
  const int64_t block = choose_product_tile(direct_work(attrs, data, result, half), machine).channel_block();
  Candidate candidate{{"direct", {{"block", block}}}, predicted_direct_cycles(attrs, data, result, machine), {}, ""};
  candidate.decision.set("half", half ? 1 : 0);
  return candidate;
}

Candidate winograd(ConvAttrs attrs, const TensorType& data, const TensorType& result, ConvAlgorithm algorithm,
                   const MachineModel& machine) {
  Candidate candidate{{fmt::format("winograd{}", winograd_tile(algorithm)), {}}, {}, {}, ""};
  if (!fits_winograd(attrs)) {
    candidate.why = "is for windows of 3 by 3 with strides and dilations of 1";
    return candidate;
  }
  if (data.dtype != DType::kF32 || !data.shape[1].is_constant()) {
    candidate.why = "is for f32 with a known number of channels";
    return candidate;
  }
  attrs.algorithm = algorithm;
  candidate.cycles = predicted_winograd_cycles(attrs, data, result, machine, algorithm);
  candidate.decision.set("block", winograd_block(attrs, data, result, machine));
  candidate.decision.set("half", prefers_half(attrs, data, result, machine) ? 1 : 0);
  return candidate;
}

void add_tiles(std::vector<Candidate>& all, ConvAttrs attrs, const TensorType& data, const TensorType& result,
               const Target& target) {
  const int64_t parts = tile_parts(target);
  if (parts == 0 || !fits_tiles(attrs, data.dtype) || !data.shape[1].is_constant()) return;
  attrs.tile_unit = *tile_unit(target);
  for (int64_t some = parts; some <= (parts == 2 ? 3 : parts); ++some) {
    attrs.tile_parts = some;
    const auto cycles = predicted_tile_cycles(attrs, data, result, target.machine);
    all.push_back({{"tiles", {{"parts", some}}}, cycles, {}, ""});
  }
}

}  // namespace

std::vector<Candidate> conv_candidates(const ConvAttrs& attrs, const TensorType& data, const TensorType& result,
                                       const Target& target) {
  if (is_depthwise(attrs, data)) return {{{"depthwise", {}}, {}, {}, ""}, {{"plain", {}}, {}, {}, ""}};
  std::vector<Candidate> all{direct(attrs, data, result, target.machine)};
  for (const ConvAlgorithm algorithm : kWinograd)
    all.push_back(winograd(attrs, data, result, algorithm, target.machine));
  add_tiles(all, attrs, data, result, target);
  return all;
}

std::vector<Candidate> dense_candidates(const TensorType& data, int64_t units, const Target& target) {
  const MachineModel& machine = target.machine;
  const DenseWork work = dense_work(data, units, machine, false);
  const auto cycles = [&](const DenseWork& one) {
    return predicted_dense_cycles(one, choose_dense_tile(one, machine), machine);
  };
  std::vector<Candidate> all{
      {{"packed", {{"block", choose_dense_tile(work, machine).tile.channel_block()}}}, cycles(work), {}, ""}};
  if (data.dtype == DType::kF32 && data.shape.back().is_constant()) {
    for (const int bits : {20, 24}) {
      DenseWork fixed = work;
      fixed.fixed_bits = bits;
      const int64_t block = choose_dense_tile(fixed, machine).tile.channel_block();
      all.push_back({{"integers", {{"bits", bits}, {"block", block}}}, cycles(fixed), {}, ""});
    }
    const int64_t parts = tile_parts(target);
    for (int64_t some = parts; parts > 0 && some <= (parts == 2 ? 3 : parts); ++some) {
      const double predicted = predicted_tile_cycles(data, units, *tile_unit(target), some, machine);
      all.push_back({{"tiles", {{"parts", some}}}, predicted, {}, ""});
    }
  }
  return all;
}

}  // namespace gantry::cpu
