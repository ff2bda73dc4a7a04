// The ranks that a model declares of its values: what only the running model computes has no other.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace onnx {
class GraphProto;
class ValueInfoProto;
}  // namespace onnx

namespace gantry {

/// By the values' names, of a graph and those inside of it that are open: others may use the same names.
class DeclaredRanks {
 public:
  /// What is added from here on is of a graph inside of the others, until it is closed.
  void open() { graphs_.emplace_back(); }
  void close() { graphs_.pop_back(); }
  void add(const onnx::GraphProto& graph);
  void add(const std::string& name, int rank) { graphs_.back().emplace(name, rank); }
  /// What the innermost graph says that says anything.
  std::optional<int> of(const std::string& name) const;

 private:
  using Ranks = std::unordered_map<std::string, int>;
  void add(const onnx::ValueInfoProto& value);
  std::vector<Ranks> graphs_ = std::vector<Ranks>(1);  ///< the innermost last
};

}  // namespace gantry
