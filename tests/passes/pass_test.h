// Pass tests: graph text in, pass, graph text out.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "host/graph/graph.h"
#include "host/graph/structural_equal.h"
#include "host/ops/op.h"
#include "host/passes/fuse_ops.h"
#include "host/passes/passes.h"

namespace gantry {

inline const OpTable& table() {
  static const FusedOpTable ops(op_set());
  return ops;
}

/// A context of no target in particular, with nothing asked for.
inline PassContext& fresh_context() {
  static thread_local PassContext context;
  context = PassContext();
  return context;
}

/// The graph after `pass`, verified; what it prints must read back as itself.
template <typename Pass>
std::string after(const std::string& text, const Pass& pass) {
  Graph graph = parse_graph(text, table());
  verify(graph, table(), "parsing");
  if constexpr (std::is_invocable_v<Pass, Graph&, PassContext&>) {
    pass(graph, fresh_context());
  } else {
    pass(graph);
  }
  verify(graph, table(), "the pass under test");
  std::string printed = print(graph, table());
  EXPECT_EQ(print(parse_graph(printed, table()), table()), printed);
  return printed;
}

inline size_t count_of(const Graph& graph, const OpHandle& op) {
  return static_cast<size_t>(std::ranges::count_if(graph.main.nodes(), [&](const Node* node) { return node->is(op); }));
}

/// Of printed graphs: that it is the expected one, whatever its values are called and in whatever order nodes stand
/// that do not depend on each other. Constants that the text only names are zeros on both sides.
MATCHER_P(IsGraph, expected, "is the graph\n" + std::string(expected)) {
  const auto difference =
      structural_difference(parse_graph(arg, table()), parse_graph(std::string(expected), table()), table());
  if (difference) *result_listener << "the difference: " << difference->str();
  return !difference.has_value();
}

}  // namespace gantry
