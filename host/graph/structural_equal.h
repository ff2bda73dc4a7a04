// Whether two graphs are the same program, whatever their values are called.
#pragma once

#include <optional>
#include <string>

#include "host/graph/graph.h"

namespace gantry {

/// Same type and bytes.
bool equal(const ConstantData& a, const ConstantData& b);

/// Where two graphs first differ, from the returned values backwards.
struct StructuralDifference {
  std::string what;   ///< "attributes: axis=0 and axis=1"
  std::string left;   ///< the line of the node, or the value, in which they differ
  std::string right;

  std::string str() const;
};

/// Nothing if both functions compute the same values by the same nodes: ops, attributes, inputs, bodies and placements
/// are equal, parameters correspond by their order, constants by type and bytes, and every node has its counterpart.
/// Names of values, the order of nodes that do not depend on each other, and origins do not matter; shared nodes must
/// be shared in both. In time linear in the nodes (as StructuralEqual of TVM's Relay, which also walks both graphs with
/// a map from one's variables to the other's).
std::optional<StructuralDifference> structural_difference(const Function& left, const Function& right, const OpTable& ops);
std::optional<StructuralDifference> structural_difference(const Graph& left, const Graph& right, const OpTable& ops);

}  // namespace gantry
