// Pooling over regions of interest.
#pragma once

#include "host/graph/attrs.h"
#include "host/graph/op_handle.h"

namespace gantry {

/// nn.roi_align(data (N, C, H, W), regions (R, 4): x1 y1 x2 y2, image of each region (R) i64) -> (R, C,
/// height, width): each result is the mean (or the largest) of the data at points spread evenly over its part
/// of the region, interpolated between four elements. He et al., "Mask R-CNN", 2017, section 3.
struct RoiAlignAttrs : AttrsOf<RoiAlignAttrs> {
  int64_t height = 1, width = 1;
  int64_t sampling_ratio = 0;  ///< points a side of a part; 0: as many as it has elements, rounded up
  double scale = 1;            ///< of the regions' coordinates
  bool half_pixel = true;      ///< coordinates are of edges, centres lie half an element further
  bool takes_largest = false;
  void fields(AttrVisitor& visit) override {
    visit("height", height);
    visit("width", width);
    visit("sampling_ratio", sampling_ratio);
    visit("scale", scale);
    visit("half_pixel", half_pixel);
    visit("takes_largest", takes_largest);
  }
};

/// nn.max_roi_pool(data (N, C, H, W), regions (R, 5): image x1 y1 x2 y2) -> (R, C, height, width): the
/// largest element of each part of the region, whose corners are rounded to elements; 0 where a part has
/// none. Girshick, "Fast R-CNN", 2015, section 2.1.
struct RoiPoolAttrs : AttrsOf<RoiPoolAttrs> {
  int64_t height = 1, width = 1;
  double scale = 1;
  void fields(AttrVisitor& visit) override {
    visit("height", height);
    visit("width", width);
    visit("scale", scale);
  }
};

namespace nn {
inline constexpr Op<RoiAlignAttrs> roi_align{"nn.roi_align"};
inline constexpr Op<RoiPoolAttrs> max_roi_pool{"nn.max_roi_pool"};
}  // namespace nn

}  // namespace gantry
