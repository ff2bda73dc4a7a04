// A graph to be tested, with all that its values follow from.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "host/graph/graph.h"

namespace gantry::random_graphs {

struct Case {
  uint64_t seed = 0;  ///< of the data of its parameters, which each have their name's own
  Graph graph;
  std::map<std::string, int64_t> symbols;  ///< what its symbols stand for when it runs
  bool special = false;                    ///< data have NaN, infinities, denormal numbers and signed zeros

  Case clone() const { return {seed, clone_graph(graph), symbols, special}; }
};

/// The parameter that has the symbol as an axis: what compiled code learns it from; null where none has.
const Value* parameter_of_symbol(const std::vector<Value*>& parameters, const std::string& symbol);
/// The graph with every dimension a number, in types and attributes.
Graph bound(const Graph& graph, const std::map<std::string, int64_t>& symbols);
/// Data for the parameters of a graph without symbols, in order.
std::vector<ConstantPtr> inputs_of(const Case& test, const Graph& bound);
/// Random values of that type; the same for the same seed and name.
ConstantPtr random_data(const TensorType& type, uint64_t seed, const std::string& name, bool special,
                        double scale = 1);
/// As parse_graph reads it without anything else: all constants hold their elements.
std::string text_of(const Graph& graph);

}  // namespace gantry::random_graphs
