// What derivatives of convolutions and poolings share.
#pragma once

#include "host/onnx/gradient.h"
#include "host/onnx/window.h"

namespace gantry {

/// Of channels in groups.
struct Windows : Window {
  int64_t groups = 1;
};

/// The extents of an image (N, C, spatial…) without N and C.
inline Shape spatial(const Term& x) {
  return {x.shape().begin() + 2, x.shape().end()};
}

/// The transpose of a convolution: each element of `adjoint` (N, O, windows…) times the weight (O, C /
/// groups, kernel…) is added where its window lies in (N, C, extents…).
Term spread_windows(const Term& adjoint, const Term& weight, const Windows& windows, const Shape& extents);

}  // namespace gantry
