// nn.conv by Winograd's algorithms F(2x2, 3x3), F(4x4, 3x3) and F(6x6, 3x3) (host/ops/winograd.h,
// host/targets/cpu/rule_winograd.cpp): fewer multiplications for windows of 3 by 3, with products of multiply-adds or on
// tile units.
#include <fmt/format.h>

#include <algorithm>

#include "host/costs/conv_model.h"
#include "host/costs/gpu_costs.h"
#include "host/costs/tile_costs.h"
#include "host/costs/tile_policy.h"
#include "host/forms/conv_case.h"
#include "host/forms/product.h"
#include "host/forms/ranges.h"
#include "host/machine/cpu_features.h"
#include "host/support/divide.h"

namespace gantry::forms {
namespace {

// The transformations are predicted less well than the products: the algorithm must promise this much.
constexpr double kPromise = 0.9, kGpuPromise = 0.85;
// Narrow layers have too little to multiply between the transformations.
constexpr int64_t kLeastChannels = 8;
// Elements of the widest vector: one of a volume's inputs is of one slice.
constexpr int64_t kSliceChannels = 16;
/// Over more input channels a layer by F(6x6, 3x3) is further than 1e-5 from exact sums, largest difference
/// by largest result; vgg16's by F(4x4) took 1.03 and 0.92 times as long (AVX2, 1 and 2 threads).
constexpr int64_t kSixChannels = 64;
// Data that were transformed have grown, and their errors with them.
constexpr int64_t kTileParts = 3;

// Of a chunk: beyond it no cache keeps the products.
constexpr int64_t kMostChunk = 4096;

ConvAlgorithm algorithm_of(const Decision& decision) {
  return decision.form == "winograd2"   ? ConvAlgorithm::kWinograd2
         : decision.form == "winograd4" ? ConvAlgorithm::kWinograd4
                                        : ConvAlgorithm::kWinograd6;
}

/// Chunks of an image of known size of which the last one lacks little.
std::vector<int64_t> even_chunks(const FormCase& given) {
  constexpr int64_t kMostParts = 16;
  const Shape& shape = decided_case(given).result.shape;
  const int64_t tile = winograd_tile(algorithm_of(given.decision));
  const auto height = shape[shape.size() - 2].constant(), width = shape.back().constant();
  if (given.context.target.for_gpu() || !height || !width) return {};
  std::vector<int64_t> chunks = even_parts(ceil_div(*height, tile) * ceil_div(*width, tile), kMostParts);
  std::erase_if(chunks, [](int64_t chunk) { return chunk > kMostChunk; });
  return chunks;
}

constexpr Knob kKnobs[] = {
    {"block", 0, "outputs a block of weights: whole vectors; 0 on tile units and GPUs",
     [](const FormCase& given) {
       if (given.context.target.for_gpu() || given.decision.knob("parts") != 0) return KnobRange{0, 0};
       return whole_vectors(given, packed_bytes(given.decision, given.question.node.inputs[0]->type.dtype));
     }},
    {"half", 0, "weights and data are rounded to f16"},
    {"parts", 0, "bf16 parts of each weight, for products on tile units; 0: multiply-adds",
     [](const FormCase&) { return KnobRange{0, 3}; }},
    kMergedGroups,
    kPhases,
    {"rows", 0, "results whose sums a register tile keeps at once; not on tile units",
     [](const FormCase& given) {
       return given.context.target.for_gpu() || given.decision.knob("parts") != 0 ? KnobRange{0, 0}
                                                                                  : tile_rows_range(given);
     },
     true},
    {"chunk", 0, "tiles of an image whose products are made at once",
     [](const FormCase& given) { return given.context.target.for_gpu() ? KnobRange{0, 0} : KnobRange{1, kMostChunk}; },
     true, even_chunks},
    {"input_first", 0, "the whole image is transformed before any product",
     [](const FormCase& given) { return KnobRange{0, given.context.target.for_gpu() ? 0 : 1}; }, true},
};

/// Over 512 channels of uniformly distributed data (host/ops/conv.h).
double algorithm_error(ConvAlgorithm algorithm) {
  return algorithm == ConvAlgorithm::kWinograd2 ? 3e-7 : algorithm == ConvAlgorithm::kWinograd4 ? 1.4e-6 : 8e-6;
}

/// Terms of a sum between the transformations: a plane of a window is one of them.
int64_t product_depth(const ConvCase& conv) {
  constexpr int64_t kWindow = 9;
  return depth_of(conv) / kWindow;
}

std::string_view unfit_window(const ConvCase& conv) {
  if (!fits_winograd(conv.attrs)) return "is for windows of 3 by 3 with strides and dilations of 1";
  if (!conv.data.shape[1].is_constant()) return "is for a known number of channels";
  return conv.constant_weight ? "" : "is for constant weights";
}

std::string_view unwanted(const ConvCase& conv, ConvAlgorithm algorithm, const FormContext& context) {
  if (const std::string_view no = unfit_window(conv); !no.empty()) return no;
  if (conv.data.dtype != DType::kF32) return "is for f32";
  if (context.small_weights) return "its weights are larger than the model's";
  const int64_t inputs = conv.data.shape[1].value() / conv.attrs.groups;
  if (inputs < kLeastChannels || conv.attrs.channels / conv.attrs.groups < kLeastChannels)
    return "too few channels between the transformations";
  if (conv.attrs.spatial_rank() == 3 && inputs % kSliceChannels != 0) return "slices of a volume are no whole vectors";
  if (algorithm == ConvAlgorithm::kWinograd6 && inputs > kSixChannels) return "not exact enough over so many channels";
  return "";
}

/// With products on tile units: whole blocks only.
bool fits_tile_unit(const ConvCase& conv, ConvAlgorithm algorithm, const FormContext& context) {
  const int64_t parts = costs::tile_parts(context.target);
  if (parts < 2 || algorithm == ConvAlgorithm::kWinograd6 || !conv.constant_weight ||
      !fits_winograd(conv.attrs) || !costs::fits_tile_unit(conv.attrs, conv.data, conv.result))
    return false;
  const TileGeometry& tile = geometry_of(*tile_unit(context.target));
  return tile.fast_parts && conv.data.shape[1].value() % tile.block_depth == 0 &&
         conv.attrs.channels % (tile.column_tiles * tile.columns) == 0;
}

Bid tile_bid(const ConvCase& conv, ConvAlgorithm algorithm, const FormContext& context) {
  ConvAttrs attrs = conv.attrs;
  attrs.form.tile_unit = *tile_unit(context.target);
  const int64_t depth = product_depth(conv);
  return {.decision = {fmt::format("winograd{}", winograd_tile(algorithm)), {{"parts", kTileParts}}},
          .cycles = costs::predicted_winograd_cycles(attrs, conv.data, conv.result, context.target.machine,
                                                     algorithm, kTileParts),
          .error = algorithm_error(algorithm) +
                   error_of(tile_unit_product(attrs.form.tile_unit, kTileParts), depth),
          .no = context.small_weights ? "its weights are larger than the model's" : "",
          .promise = costs::other_slack(attrs.form.tile_unit),
          .on_tiles = true};
}

Bid gpu_bid(const ConvCase& conv, ConvAlgorithm algorithm, const FormContext& context) {
  Bid bid{.decision = {fmt::format("winograd{}", winograd_tile(algorithm)), {}},
          .error = algorithm_error(algorithm),
          .promise = kGpuPromise};
  const bool known = std::ranges::all_of(conv.result.shape, [](const Dim& dim) { return dim.is_constant(); });
  if (context.small_weights) {
    bid.no = "its weights are larger than the model's";
  } else if (fits_winograd(conv.attrs) && conv.attrs.spatial_rank() == 2 && conv.attrs.groups == 1 &&
             context.target.precision == Precision::kFp32 && conv.data.dtype == DType::kF32 && known) {
    bid.ms = 1e3 * costs::gpu_costs(context.target)
                       .convolution(conv.attrs, conv.data, conv.result, algorithm, context.target.gpu);
  } else {
    // With rounded operands the transformations would lose too much.
    bid.no = "is for products in f32 of known shape with windows of 3 by 3";
  }
  return bid;
}

template <ConvAlgorithm kAlgorithm>
std::vector<Bid> bids(const FormQuestion& question, const FormContext& context) {
  return bids_of_cases(question, context, [](const ConvCase& conv, const FormContext& on) -> std::vector<Bid> {
    if (on.target.for_gpu()) {
      if (kAlgorithm == ConvAlgorithm::kWinograd6) return {};
      return {gpu_bid(conv, kAlgorithm, on)};
    }
    std::vector<Bid> all{winograd_bid(conv, kAlgorithm, on)};
    if (fits_tile_unit(conv, kAlgorithm, on)) all.push_back(tile_bid(conv, kAlgorithm, on));
    return all;
  });
}

Misfit unfit_parts(const ConvCase& conv, ConvAlgorithm algorithm, const FormContext& context) {
  if (Misfit no = unfit_tile_unit(context)) return no;
  if (fits_tile_unit(conv, algorithm, context)) return std::nullopt;
  return "parts is for F(2x2, 3x3) and F(4x4, 3x3) of images of known size with whole blocks of channels, on units that "
         "compute parts faster than multiply-adds";
}

template <ConvAlgorithm kAlgorithm>
Misfit misfit(const FormCase& given) {
  if (Misfit no = unfit_case(given)) return no;
  const ConvCase conv = decided_case(given);
  if (const std::string_view no = unfit_window(conv); !no.empty()) return fmt::format("form {} {}", given.decision.form, no);
  if (conv.data.dtype != DType::kF32 && conv.data.dtype != DType::kF64)
    return fmt::format("form {} is for f32 and f64", given.decision.form);
  if (given.decision.knob("parts") != 0) return unfit_parts(conv, kAlgorithm, given.context);
  const int64_t block = given.decision.knob("block"), outputs = conv.attrs.channels / conv.attrs.groups;
  if (conv.attrs.groups > 1 && block == 0)
    return fmt::format("form {} takes groups in blocks of their outputs, which only CPUs have", given.decision.form);
  if (conv.attrs.groups > 1 && outputs % block != 0)
    return fmt::format("block divides the {} outputs of a group, which {} does not", outputs, block);
  return unfit_half(given, conv.data.dtype);
}

template <ConvAlgorithm kAlgorithm>
Misfit refused(const FormCase& given) {
  if (given.context.target.for_gpu()) return std::nullopt;
  const ConvCase conv = decided_case(given);
  return misfit_of(costs::unfit_winograd_knob(
      *formed_attrs(given, kAlgorithm), conv.data, conv.result, given.context.target.machine,
      costs::given_plan(&given.decision), given.decision.knob("block"), given.decision.knob("half") != 0));
}

template <ConvAlgorithm kAlgorithm>
Misfit hopeless(const FormCase& given) {
  if (given.context.target.for_gpu() || given.decision.knob("parts") != 0) return std::nullopt;
  const ConvCase conv = decided_case(given);
  return hopeless_block(costs::has_winograd_tile(*formed_attrs(given, kAlgorithm), conv.data, conv.result,
                                                 given.context.target.machine, given.decision.knob("block"),
                                                 given.decision.knob("half") != 0));
}

template <ConvAlgorithm kAlgorithm>
FormedNode apply(const FormCase& given, WeightPacker& packer) {
  auto attrs = formed_attrs(given, kAlgorithm);
  Value* packed = packer.winograd(merged_weight(given, packer), *attrs);
  return formed_conv(given, attrs, product_weight(given.decision, packed, packer));
}

template <ConvAlgorithm kAlgorithm>
constexpr Form form_of(std::string_view name) {
  return {.name = name,
          .devices = Devices::kAll,
          .knobs = kKnobs,
          .possible = is_product_conv,
          .misfit = misfit<kAlgorithm>,
          .refused = refused<kAlgorithm>,
          .hopeless = hopeless<kAlgorithm>,
          .bids = bids<kAlgorithm>,
          .orders = [](const FormCase& given) { return conv_orders(given, true); },
          .apply = apply<kAlgorithm>,
          .made = [](const Node& node, const Decision& by) { return is_made_with(node, by, kAlgorithm); }};
}

}  // namespace

Bid winograd_bid(const ConvCase& conv, ConvAlgorithm algorithm, const FormContext& context) {
  Bid bid{.decision = {fmt::format("winograd{}", winograd_tile(algorithm)), {}},
          .error = algorithm_error(algorithm),
          .no = std::string(unwanted(conv, algorithm, context)),
          .promise = kPromise};
  if (!unfit_window(conv).empty() || conv.data.dtype != DType::kF32) return bid;
  const MachineModel& machine = context.target.machine;
  ConvAttrs attrs = conv.attrs;
  attrs.form.algorithm = algorithm;
  bid.cycles = costs::predicted_winograd_cycles(attrs, conv.data, conv.result, machine, algorithm);
  bid.decision.set("block", costs::winograd_block(attrs, conv.data, conv.result, machine));
  const bool half = costs::prefers_half(attrs, conv.data, conv.result, machine);
  const ProductType& type = product_type(half ? "f16" : "f32");
  set_product(bid.decision, type);
  bid.error += error_of(type, product_depth(conv));
  return bid;
}

extern const Form conv_winograd2_form = form_of<ConvAlgorithm::kWinograd2>("winograd2");
extern const Form conv_winograd4_form = form_of<ConvAlgorithm::kWinograd4>("winograd4");
extern const Form conv_winograd6_form = form_of<ConvAlgorithm::kWinograd6>("winograd6");

}  // namespace gantry::forms
