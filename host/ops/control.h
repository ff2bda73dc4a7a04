// Control flow: ops whose nodes hold functions that the running program calls.
#pragma once

#include <vector>

#include "host/graph/attrs.h"
#include "host/graph/graph.h"
#include "host/graph/op_handle.h"

namespace gantry {

class OpSet;

/// if(condition, …): the results of its first body where the condition (bool, one element) is true, else those of its
/// second. The inputs behind the condition are the parameters of the first body, then those of the second: bodies see
/// nothing else of what is around them but symbols, and constants are their own.
struct IfAttrs : AttrsOf<IfAttrs> {
  int64_t then_inputs = 0;  ///< parameters of the first body
  Shape dims;               ///< of all results, one result after another
  Shape symbols;            ///< those among `dims` that the node binds: dimensions in which the bodies differ
  void fields(AttrVisitor& visit) override {
    visit("then_inputs", then_inputs);
    visit("dims", dims);
    visit("symbols", symbols);
  }
};

/// loop(count?, condition?, states…, …): runs its body as often as the count (i64, one element) says, at most, where there
/// is one, and as long as the condition (bool, one element) holds, which the body gives anew; without one it holds at
/// first. Its body takes the number of the turn (i64), the condition, the states, and what is behind them, which stays the
/// same; it gives the condition for the next turn, the states after this one, and values that are gathered. Results: the
/// states in the end, then each gathered value of all turns, along a new first axis.
struct LoopAttrs : AttrsOf<LoopAttrs> {
  bool has_count = false, has_condition = false;
  int64_t states = 0;
  Shape dims;     ///< of all results, one result after another
  Shape symbols;  ///< those among `dims` that the node binds when it ends
  Shape entry;    ///< dimensions of the body's states that each turn binds
  void fields(AttrVisitor& visit) override {
    visit("has_count", has_count);
    visit("has_condition", has_condition);
    visit("states", states);
    visit("dims", dims);
    visit("symbols", symbols);
    visit("entry", entry);
  }
};

namespace op {
inline constexpr Op<IfAttrs> if_else{"if"};
inline constexpr Op<LoopAttrs> loop{"loop"};
}  // namespace op

/// Whether the node's functions are plans of their own, rather than the parts of one kernel.
bool is_control_flow(const Node& node);
bool is_control_flow(const OpBase& op);
bool has_control_flow(const Function& function);
/// The inputs that are the parameters of one of an `if`'s bodies.
std::vector<Value*> inputs_of_body(const Node& node, size_t body);

/// The inputs of a loop.
struct LoopInputs {
  Value* count = nullptr;      ///< null: there is none
  Value* condition = nullptr;  ///< null: there is none
  std::vector<Value*> states, others;
};
LoopInputs inputs_of_loop(const Node& node);

void add_control_ops(OpSet& set);

}  // namespace gantry
