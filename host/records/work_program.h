// A work as a program of its own, to measure its records again.
#pragma once

#include <cstdint>
#include <string>

#include "host/graph/graph.h"
#include "host/records/store.h"

namespace gantry::records {

/// Graph text of the node and of what its kernel takes in behind it (work_nodes), for Store::add. What they
/// read of others is a parameter; constants are zeros, but for single numbers: no weights of a model get into
/// a store.
WorkProgram work_program(const Function& function, const Node& node);

/// The program's graph, whose constants of floating-point numbers are drawn from the seed. Its first node is
/// the one that a decision is for. User errors for a text that is none, or whose work is another one than
/// `work` says.
Graph graph_of(const WorkProgram& program, uint64_t seed);

}  // namespace gantry::records
