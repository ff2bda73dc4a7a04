#include "host/onnx/assumptions.h"

#include <algorithm>
#include <map>
#include <string>

#include "host/onnx/size_advice.h"

namespace gantry {
namespace {

/// Sizes that constraints give to symbols.
std::map<std::string, int64_t> required_sizes(const Function& function) {
  std::map<std::string, int64_t> sizes;
  for (const auto& [left, right, origin] : function.constraints) {
    if (left.is_symbol() && right.is_constant()) sizes.emplace(left.str(), right.value());
    if (right.is_symbol() && left.is_constant()) sizes.emplace(right.str(), left.value());
  }
  return sizes;
}

bool can_hold(const DimConstraint& constraint, const std::map<std::string, int64_t>& sizes) {
  for (const Dim& side : {constraint.left, constraint.right}) {
    for (const std::string& symbol : side.symbols()) {
      if (!sizes.contains(symbol)) return true;
    }
  }
  return holds(constraint, sizes);
}

bool is_better(const Attempt& a, const Attempt& b) {
  if (a.graph.has_value() != b.graph.has_value()) return a.graph.has_value();
  return a.graph && a.contradictions < b.contradictions;
}

}  // namespace

size_t broken_constraints(const Function& function) {
  const std::map<std::string, int64_t> sizes = required_sizes(function);
  return static_cast<size_t>(std::ranges::count_if(
      function.constraints, [&](const DimConstraint& each) { return !can_hold(each, sizes); }));
}

Attempt best_attempt(const std::function<Attempt(std::vector<bool>)>& import) {
  constexpr size_t kMostQuestions = 16;  // each may import the model again
  Attempt best = import({});
  for (size_t i = 0; i < std::min(best.answers.size(), kMostQuestions); ++i) {
    if (best.graph && best.contradictions == 0) break;
    std::vector<bool> answers(best.answers.begin(),
                              best.answers.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    answers.back() = !answers.back();
    Attempt other = import(std::move(answers));
    if (is_better(other, best)) best = std::move(other);
  }
  return best;
}

}  // namespace gantry
