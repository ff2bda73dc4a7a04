// One node of the optimised graph -> one kernel.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "host/driver/compile.h"
#include "host/driver/kernel_work.h"
#include "host/graph/graph.h"
#include "host/loops/custom_kernel.h"
#include "host/loops/lower.h"

namespace gantry {

/// What a kernel's caller must hand it beside buffers: of a kernel by itself in its own symbols, of a call in
/// those of the graph.
struct KernelSizes {
  std::vector<Dim> dims;           ///< values of kernel.symbols
  std::vector<Dim> scratch_bytes;  ///< of kernel.scratch
  std::vector<Dim> grids;          ///< of a GPU's kernel: blocks along x, y and z of each launch
  std::vector<Dim> loops;          ///< of a GPU's kernel: iterations of its loops around launches

  /// Those of a call by the node that the work was read from.
  KernelSizes bound_by(const KernelWork& work) const;
};

struct BuiltKernel {
  LoopKernel kernel;
  KernelSizes sizes;
  /// Why the schedule that a GPU's rules made of it was not taken, but one without tiles; empty: it was.
  std::string misfit;
  /// What it calls in the place of a loop nest; null: it has one.
  std::shared_ptr<const CustomCall> custom;
};

/// Builds the work's tensor expressions, schedules and lowers them. `name` becomes the kernel's name. Of the
/// options, own_kernel may schedule it otherwise, for that node.
BuiltKernel build_kernel(const Node& node, const KernelWork& work, const Target& target,
                         const std::string& name, const LoopObserver& observe = {},
                         const CompileOptions& options = {});

/// "nn.conv[winograd4]+add+nn.relu": ops, with the algorithm of those that have several.
std::string display_name(const Node& node);
/// Of its ops the one that it is for, which others follow or feed: "nn.conv".
std::string main_op(const Node& node);
/// Floating-point operations of the node, and the bytes that it must read and write at least.
Dim flops_of(const Node& node);
Dim bytes_of(const Node& node);

}  // namespace gantry
