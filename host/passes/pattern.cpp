#include "host/passes/pattern.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "host/passes/strided_view.h"
#include "host/support/error.h"

namespace gantry {

struct PatternNode {
  const OpHandle* op = nullptr;  ///< null: not a node's result by itself
  std::vector<Pattern> inputs;
  bool commutes = false;
  bool shared = false;
  std::vector<Pattern> alternatives;  ///< one of them, too
  std::function<bool(const Value&)> predicate;
  std::string name;  ///< captured so; empty: not
};

namespace {

constexpr double kScalarTolerance = 1e-6;

PatternNode copy_of(const Pattern& pattern) {
  return *pattern;
}
Pattern pattern_of(PatternNode what) {
  return Pattern(std::make_shared<const PatternNode>(std::move(what)));
}

}  // namespace

Pattern Pattern::where(std::function<bool(const Value&)> predicate) const {
  PatternNode what = copy_of(*this);
  if (what.predicate) {
    what.predicate = [first = what.predicate, second = std::move(predicate)](const Value& value) {
      return first(value) && second(value);
    };
  } else {
    what.predicate = std::move(predicate);
  }
  return pattern_of(std::move(what));
}

Pattern Pattern::shared() const {
  PatternNode what = copy_of(*this);
  what.shared = true;
  return pattern_of(std::move(what));
}

Pattern Pattern::as(std::string name) const {
  PatternNode what = copy_of(*this);
  what.name = std::move(name);
  return pattern_of(std::move(what));
}

Pattern any(std::string name) {
  PatternNode what;
  what.name = std::move(name);
  return pattern_of(std::move(what));
}

Pattern constant(std::string name) {
  return any(std::move(name)).where([](const Value& value) { return value.is_constant(); });
}

Pattern scalar(double value) {
  PatternNode what;
  what.predicate = [value](const Value& given) {
    const std::optional<double> number = constant_scalar(&given);
    return number && std::abs(*number - value) <= kScalarTolerance * std::abs(value);
  };
  return pattern_of(std::move(what));
}

Pattern node(const OpHandle& op, std::vector<Pattern> inputs) {
  PatternNode what;
  what.op = &op;
  what.inputs = std::move(inputs);
  return pattern_of(std::move(what));
}

Pattern commuted(const OpHandle& op, Pattern a, Pattern b) {
  PatternNode what;
  what.op = &op;
  what.inputs = {std::move(a), std::move(b)};
  what.commutes = true;
  return pattern_of(std::move(what));
}

Pattern either(std::vector<Pattern> alternatives) {
  PatternNode what;
  what.alternatives = std::move(alternatives);
  return pattern_of(std::move(what));
}

Value* Match::operator[](std::string_view name) const {
  const auto found = captured_.find(name);
  internal_check(found != captured_.end(), "the pattern captures no {}", name);
  return found->second;
}

bool Match::is_private(const Function& function) const {
  return std::ranges::all_of(nodes_, [&](Node* node) {
    if (node == root_->producer || shared_.count(node) != 0) return true;
    return std::ranges::all_of(node->results, [&](const Value* result) {
      return !function.is_output(result) &&
             std::ranges::all_of(result->users, [&](Node* user) { return nodes_.count(user) != 0; });
    });
  });
}

std::vector<std::string> Match::origin(const Function& function) const {
  std::vector<std::string> names;
  for (Node* node : function.nodes()) {
    if (nodes_.count(node) != 0) join_origin(names, node->origin);
  }
  return names;
}

/// Backtracks: `rest` says whether what is left to match does, with what has been captured so far.
class PatternMatcher {
 public:
  PatternMatcher(Match& found, Value* root) : found_(found) { found_.root_ = root; }

  using Rest = std::function<bool()>;

  bool match(const PatternNode& what, Value* value, const Rest& rest) {
    if (value == nullptr || (what.predicate && !what.predicate(*value))) return false;
    return capture(what, value, [&] { return inside(what, value, rest); });
  }

 private:
  bool capture(const PatternNode& what, Value* value, const Rest& rest) {
    if (what.name.empty()) return rest();
    const auto [known, fresh] = found_.captured_.try_emplace(what.name, value);
    if (!fresh) return known->second == value && rest();
    if (rest()) return true;
    found_.captured_.erase(what.name);
    return false;
  }

  bool inside(const PatternNode& what, Value* value, const Rest& rest) {
    if (!what.alternatives.empty()) {
      return std::ranges::any_of(what.alternatives,
                                 [&](const Pattern& pattern) { return match(*pattern, value, rest); });
    }
    if (what.op == nullptr) return rest();
    Node* node = producer_of(value, *what.op);
    if (node == nullptr || value->result_index != 0 || node->inputs.size() < what.inputs.size()) return false;
    const bool fresh = found_.nodes_.insert(node).second;
    if (what.shared) found_.shared_.insert(node);
    if (inputs(what, *node, 0, false, rest)) return true;
    if (what.commutes && inputs(what, *node, 0, true, rest)) return true;
    if (fresh) found_.nodes_.erase(node);
    if (fresh) found_.shared_.erase(node);
    return false;
  }

  bool inputs(const PatternNode& what, const Node& node, size_t index, bool swapped, const Rest& rest) {
    if (index == what.inputs.size()) return rest();
    Value* input = node.inputs[swapped ? 1 - index : index];
    return match(*what.inputs[index], input, [&] { return inputs(what, node, index + 1, swapped, rest); });
  }

  Match& found_;
};

bool match(const Pattern& pattern, Value* value, Match& found) {
  return PatternMatcher(found, value).match(*pattern, value, [] { return true; });
}

void apply_rules(const Rewriter& rewriter, const std::vector<Rule>& rules) {
  for (Node* root : rewriter.nodes()) {
    // What was part of an earlier match is not computed any more.
    if (root->result()->users.empty() && !rewriter.function().is_output(root->result())) continue;
    for (const Rule& rule : rules) {
      Match found;
      if (!match(rule.root, root->result(), found) || !found.is_private(rewriter.function())) continue;
      Value* instead = rule.build(rewriter.before(*root, found.origin(rewriter.function())), found);
      if (instead == nullptr) continue;
      internal_check(instead->type == root->result()->type, "a rule makes a {} of a {}", instead->type.str(),
                     root->result()->type.str());
      rewriter.replace(root->result(), instead);
      break;
    }
  }
}

}  // namespace gantry
