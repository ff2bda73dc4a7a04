// Kernels of a program as text: their nodes, loop nests and code; by name, or by the model's node.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "host/driver/compile.h"
#include "host/driver/node_history.h"
#include "host/machine/target.h"

namespace gantry::cli {

/// Which texts of a kernel; none: its nodes in the graph, its loop nest and its assembly.
struct KernelTexts {
  bool graph = false, loops = false, llvm = false, assembly = false;
};

/// The model's nodes as they were read, name and ONNX op.
using ModelNodes = std::vector<std::pair<std::string, std::string>>;

class KernelView {
 public:
  KernelView(const LoweredProgram& program, const Target& target) : program_(program), target_(target) {}

  /// Indices of the kernel of that name, or else of those with it in their names. A user error suggests
  /// others.
  std::vector<size_t> named(const std::string& name) const;
  /// Of those that compute a part of the node.
  std::vector<size_t> of_node(const std::string& node) const;
  /// Where no kernel computes the node: what became of it. A user error suggests others where the model has
  /// no such node.
  std::string where_is(const std::string& node, const ModelNodes& nodes, const NodeHistory& history) const;
  /// "node Conv_0 (Conv) is computed by conv_relu_1 at #3": for a comment.
  std::string summary(const std::string& node, const ModelNodes& nodes) const;

  /// A kernel with its steps and nodes at the head. Loop nest and code say of which ops and nodes they are.
  std::string text(size_t kernel, KernelTexts texts) const;
  /// A line of head()'s, with that before it: "// kernel conv_relu_1: nn.conv+nn.relu", then its steps.
  std::string head(size_t kernel, std::string_view comment) const;
  /// All kernels with their steps, ops and nodes. `width` of the terminal; 0: unlimited.
  std::string list(size_t width) const;

 private:
  std::vector<const KernelStep*> steps_of(size_t kernel) const;

  const LoweredProgram& program_;
  const Target& target_;
};

}  // namespace gantry::cli
