// What a graph computes, to the extent that its arithmetic determines it.
//
// The reference is the graph's value with floats of 64 bits, node by node on the tensor expressions. How far
// results in the graph's own types may be from it follows from Monte Carlo arithmetic (Parker, "Monte Carlo
// Arithmetic: exploiting randomness in floating-point arithmetic", 1997): the graph is evaluated several
// times more, each time with what rounding may do to every node's operands and result, upwards, downwards and
// either way. Roundings are those of the dtype, times the root of the terms of the node's sums; those of
// products are of the largest sum of a tensor, which is what Winograd's algorithms and weights of few bits
// promise. An element that jumps (a comparison, a rounding, a position, which the roundings decide) is not
// determined.
#pragma once

#include <string>
#include <vector>

#include "tests/random_graphs/case.h"

namespace gantry::random_graphs {

struct Expected {
  DType dtype = DType::kF32;
  ConstantPtr value;            ///< floats as f64
  std::vector<double> allowed;  ///< difference of each element; infinity: it is not determined
};

/// `product_unit`: relative error of a term of f32 products, where these are not computed in f32.
std::vector<Expected> reference(const Graph& bound, const std::vector<ConstantPtr>& inputs, uint64_t seed,
                                double product_unit = 0x1p-24);

/// Empty if the outputs are as expected, else the element that is farthest outside, in words.
std::string difference(const std::vector<ConstantPtr>& actual, const std::vector<Expected>& expected);

/// Elements of which is known what they should be, as a share of all.
double determined_share(const std::vector<Expected>& expected);

}  // namespace gantry::random_graphs
