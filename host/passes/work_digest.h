// What a node that has a decision to make gives to compute, or a network of which something is decided, as a
// digest: the key of records of tuning.
#pragma once

#include <string>
#include <vector>

#include "host/graph/graph.h"
#include "host/passes/network_decision.h"

namespace gantry {

/// 64 hexadecimal digits, of a node of the function as it is when forms are chosen (alter_layout): its op and
/// attributes, the types of what it reads and writes with their extents, which of that are constants and
/// which are the same value, and, in the same way, the elementwise and broadcasting nodes behind it that
/// alone read what is before them, as a kernel takes them in. Symbolic dimensions count by where they are
/// equal, not by name. Values of constants do not count, but those of single numbers, which code has in
/// itself; names and what stands in front of the node do not count.
std::string work_digest(const Function& function, const Node& node);

/// The node, and those behind it that count as its work, in their order.
std::vector<const Node*> work_nodes(const Function& function, const Node& node);

/// What is digested, as text: for tests and explanations.
std::string work_text(const Function& function, const Node& node);

/// 64 hexadecimal digits, of a function as it is when forms are chosen, and of what is asked of it: all of
/// its nodes in their order, each with what counts of it in work_digest(), which decisions they have already,
/// and which values it returns; of functions that control flow calls only that they are there.
std::string network_digest(const Function& function, NetworkQuestion question);
/// What is digested, as text.
std::string network_text(const Function& function, NetworkQuestion question);

}  // namespace gantry
