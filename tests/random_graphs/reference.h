// What a graph computes, to the extent that its arithmetic determines it.
//
// The reference is the graph's value with floats of 64 bits, node by node on the tensor expressions, and computed
// along with it between what each element lies, however it is computed in the graph's own types: interval arithmetic
// with the roundings of every operation (interval.h, enclosure.h, enclosed_node.h). So what cancellation, a division
// by nearly nothing or a step makes of roundings is part of the reference, and there is no tolerance besides.
#pragma once

#include <string>
#include <vector>

#include "tests/random_graphs/case.h"
#include "tests/random_graphs/enclosure.h"

namespace gantry::random_graphs {

/// `product_unit`: relative error of a term of f32 products, where these are not computed in f32.
std::vector<Elements> reference(const Graph& bound, const std::vector<ConstantPtr>& inputs, uint64_t seed,
                                double product_unit = 0x1p-24);

/// Empty if the outputs are as expected, else the first element that is not, in words.
std::string difference(const std::vector<ConstantPtr>& actual, const std::vector<Elements>& expected);

/// Elements of which is known what they should be, as a share of all: floats to a hundredth of the largest one.
double determined_share(const std::vector<Elements>& expected);

}  // namespace gantry::random_graphs
