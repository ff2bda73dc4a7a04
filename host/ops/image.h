// What ops over images share: where the channel axis is, and sliding windows.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "host/graph/attrs.h"

namespace gantry {

/// Base of the attributes of channel-aware ops: shapes are (N, C, spatial…), or (N, spatial…, C) if
/// channels_last.
struct ImageAttrs : Attrs {
  bool channels_last = false;

 protected:
  /// A choice: models have (N, C, spatial…).
  void visit_order(AttrVisitor& visit) {
    visit.choices([&] { visit("channels_last", channels_last); });
  }
};
template <typename Derived>
struct ImageAttrsOf : ImageAttrs {
  std::shared_ptr<Attrs> clone() const override {
    return std::make_shared<Derived>(static_cast<const Derived&>(*this));
  }
};

/// Axis of the channels in a tensor of that rank.
inline int channel_axis(bool channels_last, int rank) {
  return channels_last ? rank - 1 : 1;
}
/// First spatial axis; the spatial axes are adjacent.
inline int first_spatial_axis(bool channels_last) {
  return channels_last ? 1 : 2;
}

/// floor((extent + pad_begin + pad_end - dilation*(kernel-1) - 1) / stride) + 1; with `ceil_mode` rounded up,
/// but the last window starts inside the input or its begin padding.
Dim window_extent(const Dim& extent, const Dim& pad_begin, const Dim& pad_end, int64_t kernel, int64_t stride,
                  int64_t dilation, bool ceil_mode = false);
/// True if every element is the constant 0.
bool all_zero(const Shape& padding);

}  // namespace gantry
