// The names that ONNX nodes read.
#pragma once

#include <set>
#include <string>

namespace onnx {
class NodeProto;
}  // namespace onnx

namespace gantry {

/// Adds the names that a node reads: its inputs, and what graphs inside of it and a Gradient's `y` name.
/// Names that such a graph defines itself are among them: in a model no others have those.
void add_reads(const onnx::NodeProto& node, std::set<std::string>& reads);
bool reads_any(const onnx::NodeProto& node, const std::set<std::string>& names);

}  // namespace gantry
