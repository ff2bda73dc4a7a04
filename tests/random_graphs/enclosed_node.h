// Nodes with floats as intervals: their tensor expressions', with what is known of whole ops besides.
#pragma once

#include <vector>

#include "host/graph/graph.h"
#include "tests/random_graphs/choices.h"
#include "tests/random_graphs/enclosure.h"

namespace gantry::random_graphs {

/// Results of a node whose types are numbers, for elements of its inputs (null where one is absent).
///
/// Convolutions and matrix products may be computed by other algorithms (Winograd's, products of parts of few
/// bits), which promise an error beside the largest sum of absolute terms of the whole result: `product_unit` times
/// the root of a sum's terms. What is not finite spreads along sums as algorithms want it. Loop nests written by hand
/// (recurrences, scattering, scans) are run on the ends of the inputs and on random corners between them (Parker,
/// "Monte Carlo Arithmetic", 1997), and their results' range counts several times.
std::vector<Elements> enclosed(const Node& node, const std::vector<const Elements*>& inputs, double product_unit,
                               Choices& choices);

}  // namespace gantry::random_graphs
