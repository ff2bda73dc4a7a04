// bind_dims: dimensions that only exist when the program runs.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "host/graph/attrs.h"
#include "host/graph/graph.h"
#include "host/graph/op_handle.h"

namespace gantry {

/// bind_dims(tensor?): gives symbols their values while the program runs. `tensor`: i32 or i64 with as many
/// elements as there are symbols; without one the values are those of `values`, expressions of symbols that are
/// bound before. Symbol i stands for element i, which must not be negative; or, where there are `negatives`, for
/// max(element i, 0), and negative i for max(-element i, 0): symbols are never negative, and the element is their
/// difference. The result is an empty token that nothing reads: dead_code keeps the node as long as something
/// mentions one of its symbols. What mentions them stands behind the node.
struct BindDimsAttrs : AttrsOf<BindDimsAttrs> {
  Shape symbols, negatives, values;
  void fields(AttrVisitor& visit) override {
    visit("symbols", symbols);
    visit("negatives", negatives);
    visit("values", values);
  }
};

namespace op {
inline constexpr Op<BindDimsAttrs> bind_dims{"bind_dims"};
}  // namespace op

/// Names of the symbols that the node binds; empty for most.
std::vector<std::string> bound_symbols(const Node& node);
/// Whether any node of the function binds symbols.
bool binds_symbols(const Function& function);
/// Adds the symbols that the node's attributes and results mention, those of its bodies included, but not those that
/// it binds itself.
void add_mentioned_symbols(const Node& node, std::set<std::string>& symbols);

}  // namespace gantry
