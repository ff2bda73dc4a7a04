#include "host/driver/usual_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "host/graph/dim_broadcast.h"
#include "host/graph/substitute_sizes.h"
#include "host/ops/movement.h"
#include "host/support/error.h"

namespace gantry {
namespace {

/// Finds out which symbols of the inputs stand for which dimensions.
class Equaliser {
 public:
  explicit Equaliser(const Function& main) {
    for (const Value* parameter : main.parameters) {
      for (const Dim& dim : parameter->type.shape) {
        if (dim.is_symbol()) known_.insert(dim.str());
      }
    }
  }

  void look_at(const Function& function) {
    for (const Node* node : function.nodes()) {
      for (const auto& body : node->bodies) look_at(*body);
      const auto* attrs = node->match(op::broadcast_to);
      if (attrs == nullptr) continue;
      const Shape& own = node->inputs[0]->type.shape;
      for (const int64_t axis : attrs->open) {
        const auto d = static_cast<size_t>(axis);
        equate_all(own[d], attrs->shape[attrs->shape.size() - own.size() + d]);
      }
    }
  }

  const std::map<std::string, Dim>& equal() const { return equal_; }

 private:
  void equate_all(const Dim& own, const Dim& result) {
    std::vector<Dim> all = operands_or_itself(own);
    const std::vector<Dim> others = operands_or_itself(result);
    all.insert(all.end(), others.begin(), others.end());
    for (size_t i = 1; i < all.size(); ++i) equate(all[0], all[i]);
  }

  bool is_known(const Dim& dim) const {
    return std::ranges::all_of(dim.symbols(), [&](const std::string& name) { return known_.contains(name); });
  }
  /// One of the inputs' symbols, which the other dimension says without it.
  bool may_stand_for(const Dim& symbol, const Dim& other) const {
    return symbol.is_symbol() && !std::ranges::count(other.symbols(), symbol.str());
  }

  void equate(const Dim& first, const Dim& second) {
    const Dim a = first.substitute(equal_), b = second.substitute(equal_);
    if (a == b || !is_known(a) || !is_known(b)) return;
    if (may_stand_for(b, a)) {
      replace(b.str(), a);
    } else if (may_stand_for(a, b)) {
      replace(a.str(), b);
    }
  }

  void replace(const std::string& symbol, const Dim& dim) {
    for (auto& [name, earlier] : equal_) earlier = earlier.substitute({{symbol, dim}});
    equal_[symbol] = dim;
  }

  std::set<std::string> known_;
  std::map<std::string, Dim> equal_;
};

/// What is repeated to the shape that it has, is not.
void drop_repetitions(Function& function) {
  for (const Node* node : function.nodes()) {
    for (const auto& body : node->bodies) drop_repetitions(*body);
    if (!node->is(op::broadcast_to) || function.is_output(node->result())) continue;
    if (node->inputs[0]->type == node->result()->type) function.replace_uses(node->result(), node->inputs[0]);
  }
}

}  // namespace

std::optional<UsualSizes> usual_sizes(const Graph& graph) try {
  Equaliser equaliser(graph.main);
  equaliser.look_at(graph.main);
  if (equaliser.equal().empty()) return std::nullopt;
  UsualSizes usual{clone_graph(graph), equaliser.equal()};
  if (!equate_dims(usual.graph, usual.equal)) return std::nullopt;
  drop_repetitions(usual.graph.main);
  return usual;
} catch (const Error& error) {
  // Of sizes that are equal a dimension may be divided by 0: those are none that the model is run with.
  if (error.kind() != ErrorKind::kUser) throw;
  return std::nullopt;
}

std::string equal_text(const std::map<std::string, Dim>& equal) {
  std::string text;
  for (const auto& [symbol, dim] : equal)
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", symbol, dim.str());
  return text;
}

}  // namespace gantry
