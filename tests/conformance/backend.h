// What runs a graph in the conformance tests.
#pragma once

#include <string>
#include <vector>

#include "host/graph/graph.h"

namespace gantry::conformance {

/// Runs graphs on given inputs; an implementation a way of execution.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  /// Outputs for inputs parallel to the parameters, whose shapes bind the symbols. Throws gantry::Error.
  virtual std::vector<ConstantPtr> run(const Graph& graph, const std::vector<ConstantPtr>& inputs) = 0;
};

/// Evaluates tensor expressions node by node, without lowering; loop nests written by hand as loop IR.
class InterpreterBackend : public Backend {
 public:
  std::string name() const override { return "interpreter"; }
  std::vector<ConstantPtr> run(const Graph& graph, const std::vector<ConstantPtr>& inputs) override;
};

}  // namespace gantry::conformance
