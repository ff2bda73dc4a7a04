// Patterns of nodes as data: what a rewrite looks for.
//
//   const Pattern x = any("x");
//   const Pattern erf = node(op::erf, {either({node(op::divide, {x, scalar(std::sqrt(2.0))}),
//                                              commuted(op::multiply, x, scalar(std::sqrt(0.5)))})});
//   const Rule gelu{commuted(op::multiply, x, …), [](const Builder& build, const Match& m) {
//                     return build(nn::gelu, {m["x"]}); }};
//   apply_rules(rewriter, {gelu});
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/passes/rewriter.h"

namespace gantry {

/// What a pattern met.
class Match {
 public:
  /// The value captured under the name; an internal error if there is none.
  Value* operator[](std::string_view name) const;
  /// What is to be replaced.
  Value* root() const { return root_; }
  /// Whether nothing else reads what the nodes met compute, but for the root and those that may be shared.
  bool is_private(const Function& function) const;
  /// The nodes met, the root's among them.
  const std::set<Node*>& nodes() const { return nodes_; }
  /// Their origins, in the order of the function.
  std::vector<std::string> origin(const Function& function) const;

 private:
  friend class PatternMatcher;
  Value* root_ = nullptr;
  std::map<std::string, Value*, std::less<>> captured_;
  std::set<Node*> nodes_, shared_;
};

struct PatternNode;
/// A description of a value. Copies share what they describe.
class Pattern {
 public:
  explicit Pattern(std::shared_ptr<const PatternNode> what) : what_(std::move(what)) {}
  /// The same, if the predicate holds of the value.
  Pattern where(std::function<bool(const Value&)> predicate) const;
  /// The same; others may read the node too, which then stays.
  Pattern shared() const;
  /// The same; the match knows the value by that name. What is captured twice must be one value.
  Pattern as(std::string name) const;
  const PatternNode& operator*() const { return *what_; }

 private:
  std::shared_ptr<const PatternNode> what_;
};

/// Any value.
Pattern any(std::string name);
/// A constant.
Pattern constant(std::string name);
/// A constant of one element within a relative 1e-6 of `value`.
Pattern scalar(double value);
/// The first result of a node of that op; inputs beyond those given may be anything.
Pattern node(const OpHandle& op, std::vector<Pattern> inputs);
/// A node of two operands in either order.
Pattern commuted(const OpHandle& op, Pattern a, Pattern b);
Pattern either(std::vector<Pattern> alternatives);

/// A rewrite: where `root` is met, and nothing else reads what is inside of it, `build` makes what takes its place,
/// in front of it; null: nothing does.
struct Rule {
  Pattern root;
  std::function<Value*(const Builder& build, const Match& match)> build;
};

/// Whether the value is as the pattern says, trying every order and alternative.
bool match(const Pattern& pattern, Value* value, Match& found);
/// Tries the rules in turn on every node, in the function's order. What takes a value's place must have its
/// type. Origins of all that a rule met are joined.
void apply_rules(const Rewriter& rewriter, const std::vector<Rule>& rules);

}  // namespace gantry
