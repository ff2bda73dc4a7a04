// Inputs of nodes that should be one number: a scalar, or a tensor of one element.
#pragma once

#include "host/onnx/node_import.h"

namespace gantry {

// Of input i of the node, which errors call `what`. Another number of elements is a user error.

/// As NodeImport::dims() has it.
Dim one_dim(NodeImport& n, size_t i, const char* what, Elements elements = Elements::kSizes);
/// As NodeImport::integers() has it.
int64_t one_integer(NodeImport& n, size_t i, const char* what);
/// As NodeImport::numbers() has it.
double one_number(NodeImport& n, size_t i, const char* what);

}  // namespace gantry
