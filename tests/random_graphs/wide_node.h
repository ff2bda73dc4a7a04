// Nodes evaluated with floats of 64 bits, and what their sums do to roundings.
#pragma once

#include <optional>
#include <vector>

#include "host/graph/graph.h"

namespace gantry::random_graphs {

/// Floats as f64, others (and null) as they are.
ConstantPtr widened(const ConstantPtr& data);

/// The node's results, floats of inputs and results as f64; ops that f64 is not for compute in the node's own
/// types.
std::vector<ConstantPtr> run_wide(const Node& node, const std::vector<ConstantPtr>& inputs);

/// The node may round: it does more than move, choose or compare elements, and floats are its inputs or
/// results.
bool computes(const Node& node);
/// Terms of a result's sum of products of data and weights, of which algorithms guarantee the error beside
/// the largest result; nothing for other ops.
std::optional<int64_t> terms_of_product(const Node& node);
/// Terms of a result's plain sum or mean.
std::optional<int64_t> terms_of_sum(const Node& node);
/// Activations that round a sum or difference with 1 on the way to results that may be far smaller.
bool rounds_beside_one(const Node& node);
/// Roundings beside those of a result itself, of ops that sum on the way (normalisations, norms,
/// recurrences).
double other_growth(const Node& node);

}  // namespace gantry::random_graphs
