// The ranks that a model declares of its values: what only the running model computes has no other.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

namespace onnx {
class GraphProto;
class ValueInfoProto;
}  // namespace onnx

namespace gantry {

/// By the values' names, of a graph and its branches.
class DeclaredRanks {
 public:
  void add(const onnx::GraphProto& graph);
  void add(const std::string& name, int rank) { ranks_.emplace(name, rank); }
  std::optional<int> of(const std::string& name) const;

 private:
  void add(const onnx::ValueInfoProto& value);
  std::unordered_map<std::string, int> ranks_;
};

}  // namespace gantry
