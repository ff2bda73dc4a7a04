// Sliding windows as ONNX describes them, shared by convolutions and poolings.
#pragma once

#include <memory>
#include <vector>

#include "host/onnx/node_import.h"
#include "host/ops/pool.h"

namespace gantry {

struct Window {
  std::vector<int64_t> kernel, strides, dilations;
  Shape padding;  ///< begins, then ends
};

/// Reads strides, dilations, pads and auto_pad for a window over the spatial axes of input 0 (N, C,
/// spatial…).
Window read_window(NodeImport& node, std::vector<int64_t> kernel);

/// As read_window(), with kernel_shape and ceil_mode.
std::shared_ptr<PoolAttrs> read_pool(NodeImport& node);

}  // namespace gantry
