// What derivatives of convolutions and poolings share.
#pragma once

#include <vector>

#include "host/onnx/gradient.h"

namespace gantry {

/// How windows lie over an image; an entry a spatial axis.
struct Windows {
  std::vector<int64_t> kernel, strides, dilations;
  Shape padding;  ///< begins of all spatial axes, then ends
  int64_t groups = 1;
};

/// The transpose of a convolution: each element of `adjoint` (N, O, windows…) times the weight (O, C /
/// groups, kernel…) is added where its window lies in (N, C, extents…).
Term spread_windows(const Term& adjoint, const Term& weight, const Windows& windows, const Shape& extents);

}  // namespace gantry
