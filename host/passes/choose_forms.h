// How every node of a function is computed, and how the images between them lie.
//
// A node with several forms takes one of its options; other nodes that take images in either order take one of the two.
// What is least is the sum of what is predicted of the options and of the conversions between them: a value that is
// wanted in an order that it is not made in is converted once, whoever wants it so. That is a partitioned boolean
// quadratic problem (host/passes/pbqp.h) of a variable a node and one a value, whose values are the orders in which it is
// there; networks of blocks in series are solved exactly.
#pragma once

#include <memory>
#include <unordered_map>

#include "host/graph/graph.h"
#include "host/passes/form_set.h"
#include "host/passes/node_decision.h"

namespace gantry {

struct PassContext;

/// What was chosen for a node.
struct NodeChoice {
  /// Of a node that takes images in either order: it takes them channels-last.
  bool channels_last = false;
  /// Of a node with several forms, else null: what was asked, for who applies it, and what was decided.
  std::unique_ptr<FormQuestion> question = {};
  NodeDecision decided = {};
};
using FormChoices = std::unordered_map<const Node*, NodeChoice>;

/// Decisions that are given (PassContext::given) or that nodes have already are taken as they are; a user error names
/// the node of one that does not fit. So are those that are recorded (PassContext::recorded), but for what does not fit:
/// that is put down as unused, and the forms choose. Candidates with their conversions are there where the context asks for them.
FormChoices choose_forms(const Function& function, const FormSet& forms, PassContext& context);

}  // namespace gantry
