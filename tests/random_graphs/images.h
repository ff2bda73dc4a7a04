// Images, and windows over them, of random graphs.
#pragma once

#include <algorithm>
#include <vector>

#include "host/ops/conv.h"
#include "tests/random_graphs/sketch.h"

namespace gantry::random_graphs {

/// (N, C, spatial…) with constant channels, a value of the graph or a parameter; constant axes: all of them
/// are.
Value* image(Sketch& s, DType dtype, int64_t spatial, bool constant_axes = false);

/// Extents, strides, dilations and padding of a window that fits into `image`, into which they are written.
template <typename Attrs>
void choose_window(Sketch& s, const Value& image, Attrs& a, bool dilates = true) {
  const size_t rank = image.type.shape.size() - 2;
  a.padding.assign(2 * rank, Dim(0));
  for (size_t i = 0; i < rank; ++i) {
    const int64_t extent = s.extent(image.type.shape[2 + i]);
    a.kernel.push_back(s.choices.between(1, std::min<int64_t>(extent + 1, 4)));
    a.strides.push_back(s.choices.chance(0.7) ? 1 : s.choices.between(2, 3));
    a.dilations.push_back(dilates && s.choices.chance(0.2) ? 2 : 1);
    const int64_t reach = (a.kernel[i] - 1) * a.dilations[i] + 1;
    int64_t missing = std::max<int64_t>(0, reach - extent);
    const bool pads = missing > 0 || s.choices.chance(0.5);
    // Poolings refuse padding as wide as the window: a window holds an element at least.
    const int64_t most = reach - 1;
    const int64_t before = pads ? std::min(most, s.choices.between(0, 2)) : 0;
    missing = std::max<int64_t>(0, missing - before);
    a.padding[i] = before;
    a.padding[rank + i] = pads ? std::min(most, missing + s.choices.below(2)) : 0;
  }
}

/// A convolution with that window; `weight_chance`: that of constant weights.
Value* add_conv(Sketch& s, Value* image, std::shared_ptr<ConvAttrs> attrs, double constant_chance = 0.85);

}  // namespace gantry::random_graphs
