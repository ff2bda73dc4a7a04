// The loops of a stage, from outermost to innermost, and how they came from the axes of its operation.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "host/tensor/tensor.h"

namespace gantry {

/// What happens where a split does not divide its axis.
enum class TailStrategy : uint8_t {
  kGuard,  ///< iterations beyond the end are skipped by a condition (lowering hoists it out of full tiles)
  kShiftInwards,  ///< the last tile starts earlier and overlaps: needs extent >= factor, and a stage that may
                  ///< compute a point twice (not a reduction's own axes, nothing accumulated in place)
  kShiftOrGuard,  ///< kShiftInwards if, when the program runs, extent >= factor; else kGuard
};

/// How two axes came from one, or one from two.
struct AxisRelation {
  enum class Kind : uint8_t { kSplit, kFuse } kind;
  IterVarPtr parent;  ///< split: the axis divided; fuse: the result
  IterVarPtr outer, inner;
  Expr factor;  ///< split: extent of inner
  TailStrategy tail = TailStrategy::kGuard;
};

/// The relations make of the operation's axes exactly the leaves, each of which is a loop.
class LoopOrder {
 public:
  /// The operation's data axes, its reduction axes inside them.
  explicit LoopOrder(const OperationNode& op);

  const std::vector<IterVarPtr>& leaves() const { return leaves_; }
  const std::vector<AxisRelation>& relations() const { return relations_; }  ///< in order of application

  /// Internal errors, which name `primitive`, where `axis` is no leaf.
  size_t position_of(const IterVarPtr& axis, const char* primitive) const;
  // As Stage says. Axes by value: they may be elements of the list that changes.
  std::pair<IterVarPtr, IterVarPtr> split(IterVarPtr axis, Expr factor, TailStrategy tail);
  IterVarPtr fuse(IterVarPtr outer, IterVarPtr inner);
  void reorder(const std::vector<IterVarPtr>& order);

 private:
  std::string name_;  ///< of the operation, for errors
  std::vector<IterVarPtr> leaves_;
  std::vector<AxisRelation> relations_;
};

}  // namespace gantry
