#include "host/graph/structural_equal.h"

#include <fmt/format.h>

#include <cstring>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace gantry {
namespace {

/// Thrown where the comparison ends.
struct Differ {
  StructuralDifference difference;
};

std::string placement_text(Placement placement) {
  switch (placement) {
    case Placement::kDefault:
      return "nowhere in particular";
    case Placement::kCpu:
      return "on cpu";
    case Placement::kGpu:
      return "on gpu";
  }
  return "";
}

class Comparison {
 public:
  Comparison(const Function& left, const Function& right, const OpTable& ops)
      : left_(left), right_(right), ops_(ops) {}

  void run() {
    compare_parameters();
    compare_counts("results", left_.outputs.size(), right_.outputs.size());
    compare_counts("nodes", left_.nodes().size(), right_.nodes().size());
    if (left_.output_names != right_.output_names) differ("names of results", nullptr, nullptr);
    for (size_t i = 0; i < left_.outputs.size(); ++i) pending_.emplace_back(left_.outputs[i], right_.outputs[i]);
    drain();
    compare_dead_nodes();
    compare_constraints();
  }

 private:
  // --- what is said of a difference

  static std::string text_of(const Function& function, const Value* value, const OpTable& ops) {
    if (value == nullptr) return "none";
    if (value->producer != nullptr) return print_nodes(function, {value->producer}, ops);
    return fmt::format("{}{}: {}", value->is_constant() ? "@" : "%", value->name, value->type.str());
  }
  [[noreturn]] void differ(std::string what, const Value* left, const Value* right) const {
    throw Differ{{std::move(what), left ? text_of(left_, left, ops_) : "@" + left_.name,
                  right ? text_of(right_, right, ops_) : "@" + right_.name}};
  }
  [[noreturn]] void differ(std::string what, const Node& left, const Node& right) const {
    throw Differ{{std::move(what), print_nodes(left_, {&left}, ops_), print_nodes(right_, {&right}, ops_)}};
  }
  void compare_counts(const char* of_what, size_t left, size_t right) const {
    if (left != right) differ(fmt::format("{}: {} and {}", of_what, left, right), nullptr, nullptr);
  }

  // --- values

  void compare_parameters() {
    compare_counts("parameters", left_.parameters.size(), right_.parameters.size());
    for (size_t i = 0; i < left_.parameters.size(); ++i) {
      const Value *left = left_.parameters[i], *right = right_.parameters[i];
      compare_types(left, right);
      pair(left, right);
    }
  }

  void compare_types(const Value* left, const Value* right) const {
    if (!(left->type == right->type))
      differ(fmt::format("types: {} and {}", left->type.str(), right->type.str()), left, right);
  }

  /// False where they are a pair already; a difference where one of them has another partner.
  bool pair(const Value* left, const Value* right) {
    const auto [forth, is_new] = partner_of_left_.try_emplace(left, right);
    const auto [back, is_new_back] = partner_of_right_.try_emplace(right, left);
    if (forth->second != right || back->second != left) differ("values that are one in one of the graphs only", left, right);
    return is_new;
  }

  void compare_values(const Value* left, const Value* right) {
    if (left == nullptr || right == nullptr) {
      if (left != right) differ("an input that is absent in one of them", left, right);
      return;
    }
    if (left->kind != right->kind) differ("a parameter, a constant, or a result", left, right);
    compare_types(left, right);
    if (left->is_constant()) return compare_constants(left, right);
    if (!pair(left, right) || left->producer == nullptr) return;
    if (left->result_index != right->result_index) differ("which result of its node it is", left, right);
    compare_nodes(*left->producer, *right->producer);
  }

  /// Equal constants may be one value or several.
  void compare_constants(const Value* left, const Value* right) const {
    if (!equal(*left->constant, *right->constant)) differ("elements of a constant", left, right);
  }

  // --- nodes

  void compare_nodes(const Node& left, const Node& right) {
    const auto [found, is_new] = partner_of_node_.try_emplace(&left, &right);
    if (found->second != &right) differ("nodes that are one in one of the graphs only", left, right);
    if (!is_new) return;
    if (left.op != right.op) differ(fmt::format("ops: {} and {}", left.op->name, right.op->name), left, right);
    if (!equal(*left.attrs, *right.attrs))
      differ(fmt::format("attributes: {} and {}", to_string(*left.attrs), to_string(*right.attrs)), left, right);
    if (left.placement != right.placement) {
      differ(fmt::format("where they run: {} and {}", placement_text(left.placement), placement_text(right.placement)), left,
             right);
    }
    if (left.decision != right.decision) differ("how they are computed", left, right);
    if (left.inputs.size() != right.inputs.size() || left.results.size() != right.results.size())
      differ("how many inputs and results they have", left, right);
    compare_bodies(left, right);
    for (size_t i = 0; i < left.inputs.size(); ++i) pending_.emplace_back(left.inputs[i], right.inputs[i]);
  }

  void compare_bodies(const Node& left, const Node& right) const {
    if (left.bodies.size() != right.bodies.size()) differ("how many bodies they have", left, right);
    for (size_t i = 0; i < left.bodies.size(); ++i) Comparison(*left.bodies[i], *right.bodies[i], ops_).run();
  }

  void drain() {
    while (!pending_.empty()) {
      const auto [left, right] = pending_.back();
      pending_.pop_back();
      compare_values(left, right);
    }
  }

  /// Nodes that no result depends on have no place but their order.
  void compare_dead_nodes() {
    std::vector<const Node*> left, right;
    std::unordered_set<const Node*> met;
    for (const auto& [a, b] : partner_of_node_) met.insert(b);
    for (const Node* node : left_.nodes()) {
      if (!partner_of_node_.contains(node)) left.push_back(node);
    }
    for (const Node* node : right_.nodes()) {
      if (!met.contains(node)) right.push_back(node);
    }
    for (size_t i = 0; i < left.size() && i < right.size(); ++i) {
      compare_nodes(*left[i], *right[i]);
      drain();
    }
  }

  void compare_constraints() const {
    if (left_.ranges() != right_.ranges()) differ("ranges of symbols differ", nullptr, nullptr);
    const auto& a = left_.constraints;
    const auto& b = right_.constraints;
    compare_counts("constraints", a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      if (!(a[i].left == b[i].left && a[i].right == b[i].right)) {
        differ(fmt::format("constraints: {} == {} and {} == {}", a[i].left.str(), a[i].right.str(), b[i].left.str(),
                           b[i].right.str()),
               nullptr, nullptr);
      }
    }
  }

  const Function &left_, &right_;
  const OpTable& ops_;
  std::vector<std::pair<const Value*, const Value*>> pending_;
  std::unordered_map<const Value*, const Value*> partner_of_left_, partner_of_right_;
  std::unordered_map<const Node*, const Node*> partner_of_node_;
};

}  // namespace

bool equal(const ConstantData& a, const ConstantData& b) {
  return a.type == b.type && a.size == b.size && (a.bytes == b.bytes || std::memcmp(a.bytes, b.bytes, a.size) == 0);
}

std::string StructuralDifference::str() const {
  return fmt::format("{}\n  left:  {}\n  right: {}", what, left, right);
}

std::optional<StructuralDifference> structural_difference(const Function& left, const Function& right, const OpTable& ops) {
  try {
    Comparison(left, right, ops).run();
  } catch (const Differ& found) {
    return found.difference;
  }
  return std::nullopt;
}

std::optional<StructuralDifference> structural_difference(const Graph& left, const Graph& right, const OpTable& ops) {
  return structural_difference(left.main, right.main, ops);
}

}  // namespace gantry
