// Sliding windows as ONNX describes them, shared by convolutions, poolings and their derivatives.
#pragma once

#include <memory>
#include <vector>

#include "host/onnx/node_import.h"
#include "host/ops/pool.h"

namespace gantry {

/// How windows lie over an image; an entry a spatial axis.
struct Window {
  std::vector<int64_t> kernel, strides, dilations;
  Shape padding;  ///< begins of all spatial axes, then ends
};

/// Says in an op's attributes how its windows lie.
template <typename AttrsType>
void set_window(AttrsType& attrs, const Window& window) {
  attrs.kernel = window.kernel;
  attrs.strides = window.strides;
  attrs.dilations = window.dilations;
  attrs.padding = window.padding;
}

/// Reads strides, dilations, pads and auto_pad for a window over the spatial axes of the data (N, C,
/// spatial…), which are input 0 or made of it. A user error where they make no sense or do not fit the
/// data.
Window read_window(NodeImport& node, std::vector<int64_t> kernel, const TensorType& data);

/// Fails where there is not a padding in front of and behind each of `count` axes, or one makes no sense.
void check_padding(NodeImport& node, const Shape& padding, size_t count);

/// As read_window(), with kernel_shape and ceil_mode.
std::shared_ptr<PoolAttrs> read_pool(NodeImport& node, const TensorType& data);

/// (N, spatial…, C) as (N, C, spatial…), and back.
Value* channels_first(NodeImport& node, Value* x);
Value* channels_last(NodeImport& node, Value* x);

}  // namespace gantry
