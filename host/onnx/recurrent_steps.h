// Recurrent layers whose cells are not the usual ones, a step at a time.
#pragma once

#include <string>
#include <vector>

#include "host/onnx/node_import.h"

namespace gantry {

/// The names of the node's activations in lower case; empty where it has the usual ones.
std::vector<std::string> activation_names(const NodeImport& n);

/// Whether the node has activations other than `usual` (in lower case; those of one direction), clips, or is of f64. A
/// cell that is the usual one goes to the recurrence ops.
bool is_unusual_cell(NodeImport& n, const std::vector<std::string>& usual);

/// Converts an LSTM, GRU or RNN with any activations into its steps one after the other: their number must be
/// known.
void convert_recurrent_steps(NodeImport& n);

}  // namespace gantry
