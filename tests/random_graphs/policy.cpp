// Forms by chance: every form is right for every op that it fits.
#include <functional>

#include "host/ops/conv.h"
#include "host/ops/fixed_point.h"
#include "host/ops/tiles.h"
#include "host/passes/dilation_phases.h"
#include "host/targets/arm/tile_units.h"
#include "host/targets/x86/tile_units.h"
#include "tests/random_graphs/choices.h"
#include "tests/random_graphs/passes.h"

namespace gantry::random_graphs {
namespace {

/// The same answer to the same question.
Choices asked(uint64_t seed, const std::string& question, const Attrs* attrs, const TensorType& data) {
  return Choices(seed, question + (attrs ? to_string(*attrs) : "") + data.str());
}

int64_t some_block(Choices& choices) {
  return choices.of<int64_t>({0, 4, 8, 8, 16});
}

/// A block that parts the channels of a group evenly.
int64_t winograd_block(Choices& choices, const ConvAttrs& attrs) {
  const int64_t channels = attrs.channels / attrs.groups;
  if (attrs.groups == 1) return some_block(choices);
  for (int64_t block : {16, 8, 4}) {
    if (channels % block == 0) return block;
  }
  return channels;
}

TiledConv tiled(Choices& choices, const ConvAttrs& attrs, const TensorType& data) {
  if (!choices.chance(0.25) || !fits_tiles(attrs, data.dtype) || !data.shape[1].is_constant()) return {};
  return {3, ConvAlgorithm::kTiles};
}

}  // namespace

LayoutPolicy random_policy(uint64_t seed) {
  using Type = TensorType;
  LayoutPolicy policy;
  policy.conv_algorithm = [seed](const ConvAttrs& attrs, const Type& data, const Type&) {
    return asked(seed, "algorithm", &attrs, data)
        .of({ConvAlgorithm::kDirect, ConvAlgorithm::kDirect, ConvAlgorithm::kGemm, ConvAlgorithm::kWinograd2,
             ConvAlgorithm::kWinograd4, ConvAlgorithm::kWinograd6});
  };
  policy.dense_gemm = [seed](const Type& data, int64_t units) {
    return asked(seed, "dense" + std::to_string(units), nullptr, data).chance(0.4);
  };
  policy.conv_tiles = [seed](const ConvAttrs& attrs, const Type& data, const Type&) {
    Choices choices = asked(seed, "tiles", &attrs, data);
    return tiled(choices, attrs, data);
  };
  policy.dense_tiles = [seed](const Type& data, int64_t units) -> int64_t {
    const bool fits = data.dtype == DType::kF32 && data.shape.back().is_constant();
    return fits && asked(seed, "tiles" + std::to_string(units), nullptr, data).chance(0.25) ? 3 : 0;
  };
  policy.tile_unit = Choices(seed, "unit").of({x86::kAmx, arm::kBfmmla, x86::kVdpbf16ps});
  policy.matmul_gemm = [seed](const Type& a, const Type& b) {
    return asked(seed, "matmul" + b.str(), nullptr, a).chance(0.5);
  };
  policy.packs_data_weights = Choices(seed, "packs").chance(0.5);
  policy.small_weights = Choices(seed, "small").chance(0.2);
  policy.merged_groups = [seed](const ConvAttrs& attrs, const Type& data, const Type&) {
    return asked(seed, "groups", &attrs, data).of({int64_t{1}, int64_t{1}, int64_t{2}, attrs.groups});
  };
  policy.conv_block = [seed](const ConvAttrs& attrs, const Type& data, const Type&) {
    Choices choices = asked(seed, "block", &attrs, data);
    return some_block(choices);
  };
  policy.winograd_block = [seed](const ConvAttrs& attrs, const Type& data, const Type&) {
    Choices choices = asked(seed, "winograd", &attrs, data);
    return winograd_block(choices, attrs);
  };
  policy.conv_plain_data = [seed](const ConvAttrs& attrs, const Type& data, const Type&) {
    return attrs.algorithm == ConvAlgorithm::kDirect && asked(seed, "plain", &attrs, data).chance(0.5);
  };
  policy.conv_phases = [seed](const ConvAttrs& attrs, const Type& data, const Type&, const DilationPhases&) {
    return asked(seed, "phases", &attrs, data).chance(0.5);
  };
  policy.depthwise_plain = [seed](const ConvAttrs& attrs, const Type& data) {
    return asked(seed, "depthwise", &attrs, data).chance(0.3);
  };
  policy.dense_block = [seed](const Type& data, int64_t units) {
    Choices choices = asked(seed, "block" + std::to_string(units), nullptr, data);
    return some_block(choices);
  };
  policy.dense_fixed_point = [seed](const Type& data,
                                    int64_t units) -> std::vector<LayoutPolicy::FixedPointBlock> {
    const bool fits = data.dtype == DType::kF32 && data.shape.back().is_constant();
    if (!fits || !asked(seed, "fixed" + std::to_string(units), nullptr, data).chance(0.2)) return {};
    return {{24, 4 * FixedPointFormat(24).group}};
  };
  policy.recurrent = [seed](const Type& state, const std::vector<int64_t>&) {
    Choices choices = asked(seed, "recurrent", nullptr, state);
    RecurrentPacking packing;
    packing.columns = choices.of<int64_t>({0, 16, 32, 64});
    packing.sequences = packing.columns > 0 ? choices.between(1, 4) : 1;
    packing.directions_in_turn = packing.columns > 0 && state.shape[0] == Dim(2) && choices.chance(0.3);
    return packing;
  };
  return policy;
}

}  // namespace gantry::random_graphs
