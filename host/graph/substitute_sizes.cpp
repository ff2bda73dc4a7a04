#include "host/graph/substitute_sizes.h"

#include <fmt/ranges.h>

#include <optional>
#include <set>

#include "host/support/error.h"

namespace gantry {
namespace {

using Bindings = std::map<std::string, Dim>;

class DimReplacer : public PartialAttrVisitor {
 public:
  explicit DimReplacer(const Bindings& bindings) : bindings_(bindings) {}

  void replace(Dim& dim) const { dim = dim.substitute(bindings_); }
  void replace(Shape& shape) const {
    for (Dim& dim : shape) replace(dim);
  }
  using PartialAttrVisitor::operator();
  void operator()(std::string_view, Dim& value) override { replace(value); }
  void operator()(std::string_view, Shape& value) override { replace(value); }

 private:
  const Bindings& bindings_;
};

void replace_dims(Function& function, DimReplacer& replacer) {
  for (Value* parameter : function.parameters) replacer.replace(parameter->type.shape);
  for (Node* node : function.nodes()) {
    if (node->attrs != nullptr) {
      auto attrs = node->attrs->clone();
      attrs->fields(replacer);
      node->attrs = std::move(attrs);
    }
    for (Value* result : node->results) replacer.replace(result->type.shape);
    for (auto& body : node->bodies) {
      for (DimConstraint& constraint : body->constraints) {
        replacer.replace(constraint.left);
        replacer.replace(constraint.right);
      }
      replace_dims(*body, replacer);
    }
  }
}

/// The first constraint that cannot hold any more, before types and attributes are looked at.
std::optional<DimConstraint> replace_symbols(Graph& graph, const Bindings& bindings) {
  std::vector<DimConstraint> constraints;
  for (DimConstraint constraint : graph.main.constraints) {
    constraint.left = constraint.left.substitute(bindings);
    constraint.right = constraint.right.substitute(bindings);
    if (constraint.left == constraint.right) continue;
    if (provably_different(constraint.left, constraint.right)) return constraint;
    constraints.push_back(std::move(constraint));
  }
  graph.main.constraints = std::move(constraints);
  DimReplacer replacer(bindings);
  replace_dims(graph.main, replacer);
  return std::nullopt;
}

void check_sizes(const Function& main, const std::map<std::string, int64_t>& sizes) {
  std::set<std::string> symbols;
  for (const Value* parameter : main.parameters) {
    for (const Dim& dim : parameter->type.shape) {
      for (const auto& [symbol, range] : dim.symbol_ranges()) {
        symbols.insert(symbol);
        const auto size = sizes.find(symbol);
        if (size == sizes.end() || (size->second >= range.low && size->second <= range.high)) continue;
        user_error("{}={} is not in the range {} of {}", symbol, size->second, to_string(range), symbol);
      }
    }
  }
  for (const auto& [symbol, size] : sizes) {
    if (symbols.contains(symbol)) continue;
    user_error("{}={}: the model's inputs have no dimension '{}'; {}", symbol, size, symbol,
               symbols.empty() ? "all are fixed"
                               : fmt::format("those without a fixed size are: {}", fmt::join(symbols, ", ")));
  }
}

}  // namespace

std::string sizes_text(const std::map<std::string, int64_t>& sizes) {
  std::string text;
  for (const auto& [symbol, size] : sizes) text += fmt::format("{}{}={}", text.empty() ? "" : ",", symbol, size);
  return text;
}

void substitute_sizes(Graph& graph, const std::map<std::string, int64_t>& sizes) {
  check_sizes(graph.main, sizes);
  if (const auto broken = replace_symbols(graph, {sizes.begin(), sizes.end()})) {
    user_error("{} do not fit: {} must equal {} for {}", sizes_text(sizes), broken->left.str(),
               broken->right.str(), broken->origin);
  }
}

bool equate_dims(Graph& graph, const std::map<std::string, Dim>& equal) {
  return !replace_symbols(graph, equal);
}

}  // namespace gantry
