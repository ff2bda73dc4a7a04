// A graph lowered for one target: kernels without duplicates, and which node calls which.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "host/driver/compile.h"
#include "host/driver/kernel_builder.h"

namespace gantry {

struct KernelCall {
  const Node* node = nullptr;
  size_t kernel = 0;  ///< index into Program::kernels
  size_t step = 0;    ///< index into the plan, which copies between devices are steps of too
  std::vector<Value*> inputs;
  KernelSizes sizes;
  std::string misfit;  ///< see BuiltKernel
};

struct Program {
  Graph graph;  ///< owns the nodes of the calls
  std::vector<LoopKernel> kernels;
  std::vector<std::string> ops;       ///< parallel to kernels: display_name()
  std::vector<std::string> main_ops;  ///< parallel to kernels: main_op()
  std::vector<bool> on_gpu;           ///< parallel to kernels: runs on the GPU, real or emulated
  std::vector<KernelCall> calls;      ///< of the main function, in execution order
  std::vector<KernelCall> nested;     ///< of functions that control flow calls; `step` is that of their own plan
  /// By index into kernels: what those call that have no loop nest, but code that the user wrote.
  std::map<size_t, std::shared_ptr<const CustomCall>> custom = {};
  std::vector<NodeDecision> decisions = {};  ///< of the nodes that had a choice, in their order
  NetworkDecision network = {};              ///< what was decided for it as a whole
  Precision precision = Precision::kFp32;    ///< that the machine which runs it computes in
};

/// Runs passes and lowering. Nodes of equal work (KernelWork) are lowered once, and kernels that print alike
/// are one. A kernel is called by its ops and a number that tells those of the same ops apart, in execution
/// order: "conv_relu_3". This name is its symbol in the image and stands in every report; the same model,
/// target and options give the same names. Copies between devices are no calls: they stay nodes.
Program build_program(const Graph& graph, const Target& target, const CompileOptions& options);
/// The same for a graph that nobody needs any more: weights are freed as others, arranged for the target, take
/// their place.
Program build_program(Graph&& graph, const Target& target, const CompileOptions& options);

}  // namespace gantry
