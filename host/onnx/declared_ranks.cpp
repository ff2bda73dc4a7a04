#include "host/onnx/declared_ranks.h"

#include <onnx/onnx_pb.h>

namespace gantry {

void DeclaredRanks::add(const onnx::ValueInfoProto& value) {
  const auto& type = value.type();
  if (type.has_tensor_type() && type.tensor_type().has_shape())
    add(value.name(), type.tensor_type().shape().dim_size());
}

void DeclaredRanks::add(const onnx::GraphProto& graph) {
  for (const onnx::ValueInfoProto& value : graph.value_info()) add(value);
  for (const onnx::ValueInfoProto& value : graph.output()) add(value);
}

std::optional<int> DeclaredRanks::of(const std::string& name) const {
  for (auto graph = graphs_.rbegin(); graph != graphs_.rend(); ++graph) {
    if (const auto it = graph->find(name); it != graph->end()) return it->second;
  }
  return std::nullopt;
}

}  // namespace gantry
