#include "host/onnx/node_reads.h"

#include <onnx/onnx_pb.h>

#include <algorithm>

#include "host/onnx/converters.h"

namespace gantry {

void add_reads(const onnx::NodeProto& node, std::set<std::string>& reads) {
  reads.insert(node.input().begin(), node.input().end());
  const bool differentiates = node.domain() == kTraining;
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (differentiates && attribute.name() == "y") reads.insert(attribute.s());
    const auto add_graph = [&](const onnx::GraphProto& graph) {
      for (const onnx::NodeProto& inner : graph.node()) add_reads(inner, reads);
      for (const onnx::ValueInfoProto& output : graph.output()) reads.insert(output.name());
    };
    if (attribute.has_g()) add_graph(attribute.g());
    for (const onnx::GraphProto& body : attribute.graphs()) add_graph(body);
  }
}

bool reads_any(const onnx::NodeProto& node, const std::set<std::string>& names) {
  std::set<std::string> reads;
  add_reads(node, reads);
  return std::ranges::any_of(reads, [&](const std::string& name) { return names.count(name) != 0; });
}

}  // namespace gantry
