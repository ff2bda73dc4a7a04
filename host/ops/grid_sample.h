// nn.grid_sample: the data at positions which are data themselves, interpolated between elements.
#pragma once

#include "host/graph/attrs.h"
#include "host/graph/op_handle.h"

namespace gantry {

enum class SampleMode : uint8_t { kNearest, kLinear, kCubic };
/// What lies outside of the data.
enum class SamplePadding : uint8_t { kZeros, kBorder, kReflection };

/// nn.grid_sample(data (N, C, spatial…), grid (N, places…, axes)) -> (N, C, places…). The last axis of the
/// grid has a coordinate of every spatial axis, the last axis first ((x, y) for images). They are positions
/// of elements, or normalised: -1 and 1 are the centres of the first and the last element (align_corners), or
/// their outer edges.
struct GridSampleAttrs : AttrsOf<GridSampleAttrs> {
  SampleMode mode = SampleMode::kLinear;
  SamplePadding padding = SamplePadding::kZeros;
  bool align_corners = false;
  bool normalized = true;
  void fields(AttrVisitor& visit) override;
};

namespace nn {
inline constexpr Op<GridSampleAttrs> grid_sample{"nn.grid_sample"};
}  // namespace nn

}  // namespace gantry
