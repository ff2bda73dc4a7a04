// Weights of graph text that stay in memory.
#pragma once

#include <map>
#include <string>

#include "host/graph/parse.h"
#include "host/support/error.h"

namespace gantry::testing {

/// What print_program() put beside its text.
class MemoryWeights : public WeightSource {
 public:
  explicit MemoryWeights(const WeightEntries& entries) : entries_(entries.begin(), entries.end()) {}
  void open(const std::string&) override {}
  ConstantPtr find(const std::string& entry, const TensorType& type) override {
    const auto found = entries_.find(entry);
    if (found == entries_.end() || !(found->second->type == type))
      user_error("there is no {} '{}'", type.str(), entry);
    return found->second;
  }

 private:
  std::map<std::string, ConstantPtr> entries_;
};

/// A graph as print_program() has it.
struct ProgramText {
  std::string text;
  WeightEntries weights;
  std::vector<std::string> passes;

  ProgramText(const Graph& graph, const OpTable& ops) : passes(graph.passes) { text = print_program(graph, ops, "weights", weights); }
  Graph parse(const OpTable& ops) const {
    MemoryWeights source(weights);
    return parse_program(text, ops, passes, {"the text", &source, {}});
  }
};

}  // namespace gantry::testing
