// The names that ONNX nodes read, and what graphs inside of them are given.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace onnx {
class GraphProto;
class NodeProto;
class ValueInfoProto;
}  // namespace onnx

namespace gantry {

/// Adds the names that a node reads: its inputs, and what graphs inside of it and a Gradient's `y` name.
/// Names that such a graph defines itself are among them: in a model no others have those.
void add_reads(const onnx::NodeProto& node, std::set<std::string>& reads);
bool reads_any(const onnx::NodeProto& node, const std::set<std::string>& names);

/// The inputs of a graph inside of the model's that its node gives: files of IR version 3 and before list its
/// initialisers among its inputs too.
std::vector<const onnx::ValueInfoProto*> given_inputs(const onnx::GraphProto& graph);

/// A graph's nodes, each behind those whose results it reads. ONNX asks for that, but ONNX Runtime does not,
/// and some tools write others: of the nodes that may come next it is the first of the graph. Nodes that wait
/// for each other stay as they are, behind all others.
std::vector<const onnx::NodeProto*> nodes_in_order(const onnx::GraphProto& graph);

/// The nodes of a graph whose inputs are computed from their own results. What graphs inside of nodes read does not
/// count: they may have names of their own.
std::vector<const onnx::NodeProto*> nodes_in_cycles(const onnx::GraphProto& graph);

}  // namespace gantry
