// One node of the optimised graph -> one kernel.
#pragma once

#include <string>
#include <vector>

#include "host/driver/compile.h"
#include "host/graph/graph.h"
#include "host/loops/lower.h"

namespace gantry {

/// A kernel with what its caller must hand it. Kernels see each distinct symbolic dimension of their tensors
/// as one opaque symbol ("dim.0", …), so that indices stay simple and nodes that differ only in such
/// dimensions share code.
struct BuiltKernel {
  LoopKernel kernel;
  std::vector<Value*> inputs;      ///< of the node, each once, in the order of the kernel's input buffers
  std::vector<Dim> dims;           ///< values of kernel.symbols
  std::vector<Dim> scratch_bytes;  ///< of kernel.scratch
  std::vector<Dim> grids;          ///< of a GPU's kernel: blocks along x, y and z of each launch
  std::vector<Dim> loops;          ///< of a GPU's kernel: iterations of its loops around launches
};

/// Builds the node's tensor expressions, schedules and lowers them. `name` becomes the kernel's name. Of the
/// options, own_kernel may schedule it otherwise.
BuiltKernel build_kernel(const Node& node, const Target& target, const std::string& name,
                         const LoopObserver& observe = {}, const CompileOptions& options = {});

/// "nn.conv[winograd4]+add+nn.relu": ops, with the algorithm of those that have several.
std::string display_name(const Node& node);
/// Of its ops the one that it is for, which others follow or feed: "nn.conv".
std::string main_op(const Node& node);
/// Floating-point operations of the node, and the bytes that it must read and write at least.
Dim flops_of(const Node& node);
Dim bytes_of(const Node& node);

}  // namespace gantry
