// Attributes of convolutions.
//
// nn.conv: inputs data, weight. nn.conv_transpose: inputs data, weight (C_in, C_out / groups, spatial…).
//
// Weight layouts of nn.conv, by attributes (nb = weight_block):
//   weight_block == 0                    (O, I/groups, spatial…), as in ONNX
//   weight_block > 0, groups == 1        (ceil(O/nb), spatial…, I, nb)
//   weight_block > 0, groups > 1         (groups, ceil((O/groups)/nb), spatial…, I/groups, nb)
//   depthwise_packed                     (spatial…, C), groups == C_in == O
// Packed layouts need channels_last.
//
// Tensor-expression stages by tag:
//   any                 "pad" (only where padding is not all 0): the zero-padded input
//   plain weights       "conv_plain": (N, O, spatial…) or (N, spatial…, O)
//   packed              "conv_packed": (N, spatial…, ceil(O/nb), nb) reducing over (kernel spatial…, I), then
//                       "conv_unpack": (N, spatial…, O)
//   packed, grouped     "conv_grouped": (N, spatial…, groups, ceil((O/groups)/nb), nb), then "conv_unpack"
//   depthwise_packed    "depthwise": (N, spatial…, C) reducing over (kernel spatial…)
#pragma once

#include "host/ops/image.h"

namespace gantry {

struct ConvAttrs : ImageAttrsOf<ConvAttrs> {
  int64_t channels = 0;         ///< output channels O
  std::vector<int64_t> kernel;  ///< spatial extents, one a spatial axis; as are:
  std::vector<int64_t> strides;
  std::vector<int64_t> dilations;
  Shape padding;  ///< begins of all spatial axes, then ends
  int64_t groups = 1;
  int64_t weight_block = 0;
  bool depthwise_packed = false;

  void fields(AttrVisitor& visit) override;
  size_t spatial_rank() const { return kernel.size(); }
};

struct ConvTransposeAttrs : AttrsOf<ConvTransposeAttrs> {
  std::vector<int64_t> kernel, strides, dilations;
  Shape padding;                        ///< cut from the full result: begins, then ends (may be negative)
  std::vector<int64_t> output_padding;  ///< added at the ends
  int64_t groups = 1;

  void fields(AttrVisitor& visit) override;
};

}  // namespace gantry
