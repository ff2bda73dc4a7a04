#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>
#include <unordered_map>

#include "host/ops/op.h"
#include "host/passes/passes.h"
#include "host/passes/rewriter.h"
#include "host/support/error.h"

namespace gantry {
namespace {

// Comparing the bytes of weights costs more than it finds; biases and scalars are what repeats.
constexpr size_t kMaxComparedBytes = 64 << 10;

std::string key_of(const ConstantData& constant) {
  std::string key = constant.type.str();
  if (constant.size <= kMaxComparedBytes) {
    key.append(reinterpret_cast<const char*>(constant.bytes), constant.size);
  } else {
    key += fmt::format("{}", static_cast<const void*>(constant.bytes));
  }
  return key;
}

// Values stand for themselves in keys, which is right once equal ones are merged.
std::string key_of(const Node& node) {
  std::string key = fmt::format("{} {}", static_cast<const void*>(node.op), to_string(*node.attrs));
  for (const Value* input : node.inputs) key += fmt::format(" {}", static_cast<const void*>(input));
  return key;
}

}  // namespace

void eliminate_common_subexpr(Graph& graph, PassContext& context) {
  Function& main = graph.main;
  std::unordered_map<std::string, Value*> constants;
  for (Value* constant : main.constants()) {
    const auto [first, fresh] = constants.try_emplace(key_of(*constant->constant), constant);
    if (!fresh && context.take_rewrite()) main.replace_uses(constant, first->second);
  }
  std::unordered_map<std::string, Node*> seen;
  std::set<const Node*> duplicates;
  for (Node* node : main.nodes()) {
    if (!node->bodies.empty()) continue;
    const auto [first, fresh] = seen.try_emplace(key_of(*node), node);
    if (fresh || !context.take_rewrite()) continue;
    for (size_t i = 0; i < node->results.size(); ++i)
      main.replace_uses(node->results[i], first->second->results[i]);
    join_origin(first->second->origin, node->origin);
    duplicates.insert(node);
  }
  main.remove_nodes([&](const Node& node) { return duplicates.count(&node) != 0; });
  main.drop_unused_constants();
}

extern const Pass eliminate_common_subexpr_pass{
    .name = "eliminate_common_subexpr",
    .purpose = "what is computed twice is computed once",
    .run = eliminate_common_subexpr,
};

}  // namespace gantry
