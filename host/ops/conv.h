// Attributes of convolutions.
//
// nn.conv: inputs data, weight. nn.conv_transpose: inputs data, weight (C_in, C_out / groups, spatial…).
//
// Weight layouts of nn.conv, by its form (nb = weight_block):
//   weight_block == 0                    (O, I/groups, spatial…), as in ONNX
//   weight_block > 0, groups == 1        (ceil(O/nb), spatial…, I, nb)
//   weight_block > 0, groups > 1         (groups, ceil((O/groups)/nb), spatial…, I/groups, nb)
//   depthwise_packed                     (spatial…, C), groups == C_in == O
//   algorithm == gemm                    (K, O), with groups (groups, K, O/groups);
//                                        K = kernel spatial… × I/groups,
//                                        the input channel varying fastest
//   algorithm == tiles                   as nn.tile_weight makes it (host/ops/tiles.h), bf16
//   algorithm == winograd2, 4, 6         (t*t, I, O), t = 4, 6, 8, as nn.winograd_weight makes it; with
//                                        weight_block > 0: (ceil(O/nb), t*t, I/groups, nb), where nb divides
//                                        O/groups if there are groups; with tile_parts > 0:
//                                        bf16 in the blocks of nn.tile_weight, (NB, t*t, KC, parts,
//                                        column_tiles, block / s, 32). Of volumes the window's slices are
//                                        inputs too, a group's channels varying fastest: read KD*I for I
// All but the plain layout need channels_last, which says how the result lies, and the data too unless
// plain_data is set. Blocked weights may be f16 where the data are f32: these, or
// their transformation, are then rounded to f16 before the products.
//
// Stages of the tensor expression, with roles (host/tensor/role.h) in brackets where rules look for them:
//   any                 "pad" (only where padding is not all 0): the zero-padded input
//   f16 weights         "half_operand": f32 data rounded to f16, before "pad"
//   plain weights       "conv": (N, O, spatial…) or (N, spatial…, O)
//   packed              "conv" (kPackedConv): (N, spatial…, ceil(O/nb), nb) reducing over (kernel
//                       spatial…, I), then "conv_unpack": (N, spatial…, O). Of images of unknown width
//                       (joins_points()) "conv": (N*OH*OW, ceil(O/nb), nb), then "conv_rows": (N*OH*OW, O),
//                       then "conv_unpack"
//   packed, grouped     "conv" (kGroupedConv): (N, spatial…, groups, ceil((O/groups)/nb), nb), then
//                       "conv_unpack"
//   depthwise_packed    "conv": (N, spatial…, C) reducing over (kernel spatial…)
//   gemm                "im2col": ((g,) m, k) with m = (n*OH + oh)*OW + ow, k = (kernel…, channel), 0
//                       where the window lies outside the data (there is no "pad"); a 1x1 window of stride 1
//                       without padding has "gemm_operand" instead, which only maps indices. Then "gemm":
//                       ((g,) m, n) reducing over k (see host/ops/dense.h), then "gemm_output": (N, spatial…,
//                       O)
//   tiles               host/ops/tiles.h
//   winograd            over tiles p = (n*TH + th)*TW + tw of m x m results, m = t - 2, of t x t data (of
//                       volumes, n is an image's slice, and c a channel of a slice of its window):
//                       "winograd_patch": (i, j, p, c) the data, 0 outside; "winograd_rows": (r, j, p, c);
//                       "winograd_input": (r*t + s, p, c); "gemm": (r*t + s, p, o); "winograd_columns": (a,
//                       j, p, o); "winograd_output": (N, OH, OW, O). Coefficients are chosen by comparisons
//                       with r, s, a, …: unroll those axes and only the sums of the algorithm remain.
//                       On tile registers "tile_rows" and "tile_product" (host/ops/tiles.h) follow
//                       "winograd_input", with positions as phases.
//                       With blocked weights "winograd_product" instead of "gemm": (r*t + s, p, o / nb, o %
//                       nb), reducing over the inputs of a group
//
// The algorithm: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015
// (arXiv:1509.09308); points: host/ops/winograd.h. Error against float64, largest difference by largest
// result, sums in f32: over 512 channels of uniformly distributed data winograd2 3e-7, winograd4 1.4e-6 and
// winograd6 8e-6 in parts of 64 terms, as CPUs add them (winograd2 and 6 in one chain: 1.0e-6 and 2.5e-5);
// over 64 channels of normally distributed data winograd4 1.7e-6. Whole networks on a CPU, where each layer
// has the algorithm that its model picks: resnet18 7e-7, resnet50 1.2e-6, vgg16 2.5e-6 (AVX-512).
#pragma once

#include "host/graph/op_handle.h"
#include "host/ops/image.h"
#include "host/ops/tile_attrs.h"

namespace gantry {

/// How a convolution is computed; each has a weight layout of its own.
enum class ConvAlgorithm : uint8_t {
  kDirect,     ///< every window by itself, or packed for a CPU
  kGemm,       ///< a matrix product over the unrolled windows
  kWinograd2,  ///< 3x3 of stride 1: F(2x2, 3x3), 2.25 times fewer multiplications
  kWinograd4,  ///< as above: F(4x4, 3x3), 4 times fewer
  kTiles,      ///< on tile registers (host/ops/tiles.h)
  kWinograd6,  ///< as above: F(6x6, 3x3), 5.06 times fewer
};
/// Results a side of a tile of that Winograd algorithm; 0 for others.
inline int64_t winograd_tile(ConvAlgorithm algorithm) {
  switch (algorithm) {
    case ConvAlgorithm::kWinograd2:
      return 2;
    case ConvAlgorithm::kWinograd4:
      return 4;
    case ConvAlgorithm::kWinograd6:
      return 6;
    default:
      return 0;
  }
}

/// How a convolution is computed, and how its operands lie for that. As it is made, it is the op's
/// definition.
struct ConvForm {
  ConvAlgorithm algorithm = ConvAlgorithm::kDirect;
  int64_t weight_block = 0;
  bool depthwise_packed = false;
  /// The data are (N, C, spatial…) although the result is channels-last: images of few channels, by direct
  /// packed convolution without groups.
  bool plain_data = false;
  /// Groups of the model that each of the node's stands for; the weights between them are 0, so that
  /// what is not finite in one spreads to the others.
  int64_t merged_groups = 1;
  /// kTiles, and of Winograd's algorithms those whose products are on tile registers: bf16 parts of each f32.
  int64_t tile_parts = 0;
  TileUnit tile_unit{};
  bool tile_fold_width = false;  ///< kTiles: the window's columns are part of the depth, for few channels

  /// The weight lies as in the model.
  bool plain_weight() const {
    return algorithm == ConvAlgorithm::kDirect && weight_block == 0 && !depthwise_packed;
  }
  bool on_tiles() const { return tile_parts > 0; }
};

struct ConvAttrs : ImageAttrsOf<ConvAttrs> {
  int64_t channels = 0;         ///< output channels O
  std::vector<int64_t> kernel;  ///< spatial extents, one a spatial axis; as are:
  std::vector<int64_t> strides;
  std::vector<int64_t> dilations;
  Shape padding;       ///< begins of all spatial axes, then ends
  int64_t groups = 1;  ///< of the weight; where a form merges the model's, fewer
  ConvForm form;

  void fields(AttrVisitor& visit) override;
  size_t spatial_rank() const { return kernel.size(); }
  /// The data lie as (N, spatial…, C).
  bool data_channels_last() const { return channels_last && !form.plain_data; }
  /// Images and weight lie as in the model: no form for some target was made of it yet.
  bool as_in_model() const { return !channels_last && form.plain_weight(); }
};

/// 1x1, neither strided nor padded.
bool reads_each_point_once(const ConvAttrs& attrs);

/// Whether the points of all results of that width are one row of the packed form's products. Lines of unknown
/// length may be shorter than a tile of rows, most of which would then be computed in vain; tiles of a row go on
/// from line to line. To find where a point's window begins takes two divisions, which lines of known length save.
bool joins_points(const ConvAttrs& attrs, const Dim& width);

/// True if a Winograd algorithm can compute it: kernel 3, stride and dilation 1 along two spatial axes, the
/// last of up to three. Along the first of three the products are summed, as those of channels are.
bool fits_winograd(const ConvAttrs& attrs);
/// Slices of a volume that one of the result reads; 1 of images.
int64_t winograd_slices(const ConvAttrs& attrs);

/// nn.winograd_weight: (O, I, 3, 3) -> (t*t, I, O), or (ceil(O/block), t*t, I, block) with zeros beyond O; t
/// = tile + 2: G w G^T of every pair of channels, computed in f64 and rounded once. With tile_parts > 0
/// packed for tile registers instead, as listed above; O beyond the last and I beyond the last are 0.
struct WinogradWeightAttrs : AttrsOf<WinogradWeightAttrs> {
  int64_t tile = 2;   ///< 2, 4 or 6
  int64_t block = 0;  ///< output channels a block; 0: not blocked
  int64_t tile_parts = 0;
  TileUnit tile_unit{};
  void fields(AttrVisitor& visit) override;
};

struct ConvTransposeAttrs : AttrsOf<ConvTransposeAttrs> {
  std::vector<int64_t> kernel, strides, dilations;
  Shape padding;                        ///< cut from the full result: begins, then ends (may be negative)
  std::vector<int64_t> output_padding;  ///< added at the ends
  int64_t groups = 1;

  void fields(AttrVisitor& visit) override;
};

namespace nn {
inline constexpr Op<ConvAttrs> conv{"nn.conv"};
inline constexpr Op<WinogradWeightAttrs> winograd_weight{"nn.winograd_weight"};
inline constexpr Op<ConvTransposeAttrs> conv_transpose{"nn.conv_transpose"};
}  // namespace nn

}  // namespace gantry
