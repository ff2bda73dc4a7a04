// nn.col2im: windows put back where they were taken from, sums where they overlap.
#pragma once

#include <vector>

#include "host/graph/attrs.h"
#include "host/graph/op_handle.h"

namespace gantry {

/// nn.col2im(columns (N, C * elements of a window, windows)) -> (N, C, image…). The windows of an image are
/// in row-major order, and so are the elements of a window.
struct Col2ImAttrs : AttrsOf<Col2ImAttrs> {
  Shape image, kernel;
  std::vector<int64_t> strides, dilations;
  Shape padding;  ///< begins of all spatial axes, then ends
  void fields(AttrVisitor& visit) override {
    visit("image", image);
    visit("kernel", kernel);
    visit.filled("strides", strides, kernel.size(), 1);
    visit.filled("dilations", dilations, kernel.size(), 1);
    visit.filled("padding", padding, 2 * kernel.size(), 0);
  }
};

namespace nn {
inline constexpr Op<Col2ImAttrs> col2im{"nn.col2im"};
}  // namespace nn

}  // namespace gantry
