// What lies on the way to a place in a loop program. Private to host/loops.
#pragma once

#include <unordered_map>
#include <vector>

#include "host/loops/stmt.h"
#include "host/tensor/simplify.h"

namespace gantry {

/// What lies on the way to a place in a loop program, outermost first.
class LoopPath {
 public:
  struct Binding {
    const VarNode* var = nullptr;
    Expr low, extent;  ///< of a loop
    Expr value;        ///< of a let; else null
  };
  struct Condition {
    Expr claim;
    bool holds = true;  ///< what it must be
  };

  void enter_loop(const VarNode* var, Expr low, Expr extent);
  void enter_let(const VarNode* var, Expr value);
  void leave();  ///< the innermost loop or let
  void assume(Expr claim, bool holds) { conditions_.push_back({std::move(claim), holds}); }
  void forget() { conditions_.pop_back(); }

  const std::vector<Binding>& bindings() const { return bindings_; }
  const std::vector<Condition>& conditions() const { return conditions_; }
  /// Constants between which an integer expression lies, whatever the conditions say.
  Interval range_of(const Expr& e) const;

 private:
  std::vector<Binding> bindings_;
  std::vector<Condition> conditions_;
  std::unordered_map<const VarNode*, Interval> ranges_;
};

}  // namespace gantry
