// A convolution's attributes by what tests vary of them.
#pragma once

#include "host/ops/conv.h"

namespace gantry::testing {

/// With padding of half a window.
inline ConvAttrs square_window(int64_t outputs, int64_t kernel = 3, int64_t stride = 1, int64_t groups = 1) {
  ConvAttrs attrs;
  attrs.channels = outputs;
  attrs.groups = groups;
  attrs.kernel = {kernel, kernel};
  attrs.strides = {stride, stride};
  attrs.dilations = {1, 1};
  attrs.padding = {kernel / 2, kernel / 2, kernel / 2, kernel / 2};
  return attrs;
}

}  // namespace gantry::testing
