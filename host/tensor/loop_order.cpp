#include "host/tensor/loop_order.h"

#include <algorithm>

#include "host/support/error.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

IterVarPtr derived_axis(std::string name, IterVar::Kind kind) {
  auto axis = std::make_shared<IterVar>();
  axis->var = make_var(std::move(name));
  axis->kind = kind;
  return axis;
}

}  // namespace

LoopOrder::LoopOrder(const OperationNode& op) : name_(op.name), leaves_(op.axes) {
  leaves_.insert(leaves_.end(), op.reduce_axes.begin(), op.reduce_axes.end());
}

size_t LoopOrder::position_of(const IterVarPtr& axis, const char* primitive) const {
  auto it = std::find(leaves_.begin(), leaves_.end(), axis);
  internal_check(it != leaves_.end(), "{} of {}: {} is not one of its loops", primitive, name_,
                 axis ? axis->name() : "null");
  return static_cast<size_t>(it - leaves_.begin());
}

std::pair<IterVarPtr, IterVarPtr> LoopOrder::split(IterVarPtr axis, Expr factor, TailStrategy tail) {
  size_t at = position_of(axis, "split");
  if (auto constant = constant_of(factor))
    internal_check(*constant > 0, "split of {} by {}", axis->name(), *constant);
  internal_check(tail == TailStrategy::kGuard || axis->kind == IterVar::Kind::kData,
                 "split of {}: a reduction axis cannot shift inwards", axis->name());
  IterVarPtr outer = derived_axis(axis->name() + ".o", axis->kind);
  IterVarPtr inner = derived_axis(axis->name() + ".i", axis->kind);
  leaves_[at] = outer;
  leaves_.insert(leaves_.begin() + static_cast<std::ptrdiff_t>(at) + 1, inner);
  relations_.push_back({AxisRelation::Kind::kSplit, axis, outer, inner, std::move(factor), tail});
  return {outer, inner};
}

IterVarPtr LoopOrder::fuse(IterVarPtr outer, IterVarPtr inner) {
  size_t at = position_of(outer, "fuse");
  internal_check(at + 1 < leaves_.size() && leaves_[at + 1] == inner,
                 "fuse of {}: {} is not directly inside {}", name_, inner->name(), outer->name());
  internal_check(outer->kind == inner->kind, "fuse of {}: a data axis with a reduction axis", name_);
  IterVarPtr fused = derived_axis(outer->name() + "." + inner->name(), outer->kind);
  leaves_[at] = fused;
  leaves_.erase(leaves_.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  relations_.push_back({AxisRelation::Kind::kFuse, fused, outer, inner, Expr(), TailStrategy::kGuard});
  return fused;
}

void LoopOrder::reorder(const std::vector<IterVarPtr>& order) {
  std::vector<size_t> places;
  for (const IterVarPtr& axis : order) places.push_back(position_of(axis, "reorder"));
  std::sort(places.begin(), places.end());
  internal_check(std::adjacent_find(places.begin(), places.end()) == places.end(),
                 "reorder of {}: an axis twice", name_);
  for (size_t i = 0; i < order.size(); ++i) leaves_[places[i]] = order[i];
}

}  // namespace gantry
