// What runs a graph in the conformance tests.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "host/graph/graph.h"

namespace gantry::testing {
class EmulatedBoard;
}

namespace gantry::conformance {

/// Runs graphs on given inputs; an implementation a way of execution.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  /// Whether models whose sizes are known run on a GPU.
  virtual bool is_for_gpus() const { return false; }
  /// Outputs for inputs parallel to the parameters, whose shapes bind the symbols. Throws gantry::Error.
  virtual std::vector<ConstantPtr> run(const Graph& graph, const std::vector<ConstantPtr>& inputs) = 0;
};

/// Evaluates tensor expressions node by node, without lowering; loop nests written by hand as loop IR.
class InterpreterBackend : public Backend {
 public:
  std::string name() const override { return "interpreter"; }
  std::vector<ConstantPtr> run(const Graph& graph, const std::vector<ConstantPtr>& inputs) override;
};

/// Compiles for a target that this machine can run, and runs the module through the runtime.
class CompiledBackend : public Backend {
 public:
  CompiledBackend(std::string target, int opt_level) : target_(std::move(target)), opt_level_(opt_level) {}
  std::string name() const override { return "compiled for " + target_; }
  bool is_for_gpus() const override { return target_.starts_with("cuda"); }
  std::vector<ConstantPtr> run(const Graph& graph, const std::vector<ConstantPtr>& inputs) override;

 private:
  std::string target_;
  int opt_level_;
};

/// Compiles for AArch64 and runs on a board under emulation, which it starts.
class BoardBackend : public Backend {
 public:
  explicit BoardBackend(std::string target);
  ~BoardBackend() override;
  std::string name() const override { return "on a board, compiled for " + target_; }
  std::vector<ConstantPtr> run(const Graph& graph, const std::vector<ConstantPtr>& inputs) override;

 private:
  std::string target_;
  std::unique_ptr<testing::EmulatedBoard> board_;
};

}  // namespace gantry::conformance
