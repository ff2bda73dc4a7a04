// What combine_parallel_conv2d, combine_parallel_dense and combine_parallel_batch_matmul share: products of the same
// data with constant weights become one product with all weights side by side, and index maps that cut its result.
//
// A branch is a product and the elementwise nodes behind it, as far as each is the only reader of the last and its
// other operands are constants: a bias, an activation. Branches whose steps are alike are combined, steps included, so
// that what joined the products' kernels joins the combined one's; where only some have a bias, the others' is 0.
//
// When: cutting must cost nothing. So what reads a branch's result is a product that copies it into tiles anyway and
// takes the cut in while it does (OpDef::stages_input), with index maps between at most. What is left then is a gain: the
// data are read once, and one wide kernel starts in place of several narrow ones. Whether a reader copies is known once
// forms are chosen, after alter_layout.
//
// The gain is small where the data are in a cache: with the branches of 1x1 convolutions of googlenet combined that meet
// the rule, a run on two threads took 1.000 times as long with AVX-512 (three of the blocks; 95 % confidence 0.9945 to
// 1.0060) and 0.998 times with AVX2 (eight; 0.9962 to 0.9997). So only dense layers on GPUs are combined unasked; the
// other passes run where PassContext::combine_parallel is set.
#pragma once

#include <memory>
#include <optional>

#include "host/passes/pass.h"

namespace gantry {

/// How a product may become part of a wider one.
struct ParallelProduct {
  size_t data = 0;         ///< the input that all share
  size_t weight = 1;       ///< the input that differs
  size_t weight_axis = 0;  ///< of the weight; results lie side by side along it
  size_t result_axis = 0;  ///< of the result
  friend bool operator==(const ParallelProduct&, const ParallelProduct&) = default;
};

/// The products of one pass.
struct ParallelProducts {
  /// The node as one of them; nothing if it is none, or cannot be part of a wider one.
  std::optional<ParallelProduct> (*match)(const Node& node);
  /// The node's attributes for a result of `extent` along the result axis.
  std::shared_ptr<const Attrs> (*widened)(const Node& node, int64_t extent);
};

/// Combines the products of the main function. Leaves constant nodes and dead ones.
void combine_parallel(Graph& graph, PassContext& context, const ParallelProducts& products);

}  // namespace gantry
