// Two ways to evaluate a graph, which share nothing after import: node by node through the interpreter, and
// as the lowered program of a target, kernel by kernel through the checking evaluator of loop IR.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "host/driver/compile.h"

namespace gantry::test {

/// f32 values of every parameter, in order; small integers, so that sums are exact in any order.
using Arguments = std::vector<std::vector<float>>;

/// Random arguments for the graph's parameters under the binding of its symbols.
Arguments random_arguments(const Graph& graph, const std::map<std::string, int64_t>& symbols);
/// First output by the interpreter. Every dimension of the graph must be constant.
std::vector<float> interpret_graph(const Graph& graph, const Arguments& arguments);
/// First output of the program for `target`, after all passes, under the binding of its symbols. The
/// evaluator reports accesses out of bounds and elements that are read before they are written as errors.
std::vector<float> evaluate_program(const Graph& graph, const Target& target, int opt_level,
                                    const Arguments& arguments, const std::map<std::string, int64_t>& symbols,
                                    Optimize optimize = Optimize::kSpeed);
/// The graph with its symbols replaced by numbers, everything inferred again.
Graph bind_symbols(const Graph& graph, const std::map<std::string, int64_t>& symbols);

}  // namespace gantry::test
