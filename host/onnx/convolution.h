// Convolutions, for the converters of all ops that have one.
#pragma once

#include "host/onnx/node_import.h"

namespace gantry {

/// The convolution of data (N, C, spatial…) and weight (O, C / groups, spatial…) with the node's attributes,
/// without bias.
Value* convolve(NodeImport& n, Value* data, Value* weight);

/// The same of the node's inputs 0 and 1, with input 2, if there is one, as bias.
Value* convolve_inputs(NodeImport& n);

}  // namespace gantry
