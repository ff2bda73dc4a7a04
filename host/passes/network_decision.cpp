#include "host/passes/network_decision.h"

#include <algorithm>
#include <array>

namespace gantry {
namespace {

constexpr std::array kQuestions{NetworkQuestion::kLayouts, NetworkQuestion::kProducts,
                                NetworkQuestion::kFusions};
constexpr std::array<std::string_view, 3> kNames{"layouts", "products", "fusions"};

bool is_called(const Node& node, const NodeName& name) {
  return node.op == name.op && node.origin == name.origin;
}

}  // namespace

NodeName name_of(const Node& node) {
  return {node.op, node.origin};
}

bool reads(const Node& reader, const Node& maker) {
  return std::ranges::any_of(
      reader.inputs, [&](const Value* input) { return input != nullptr && input->producer == &maker; });
}

bool Separation::is_of(const Node& made_by, const Node& read_by) const {
  return is_called(made_by, maker) && is_called(read_by, reader);
}

bool has_edge(const Function& function, const Separation& edge) {
  return std::ranges::any_of(function.nodes(), [&](const Node* node) {
    return std::ranges::any_of(node->inputs, [&](const Value* input) {
      return input != nullptr && input->producer != nullptr && edge.is_of(*input->producer, *node);
    });
  });
}

std::span<const NetworkQuestion> network_questions() {
  return kQuestions;
}

std::string_view name_of(NetworkQuestion question) {
  return kNames[static_cast<size_t>(question)];
}

}  // namespace gantry
