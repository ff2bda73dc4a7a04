#include "host/tensor/schedule.h"

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

size_t leaf_position(const Stage& stage, const IterVarPtr& axis, const char* primitive) {
  auto it = std::find(stage.leaves.begin(), stage.leaves.end(), axis);
  internal_check(it != stage.leaves.end(), "{} of {}: {} is not one of its loops", primitive, stage.op->name,
                 axis ? axis->name() : "null");
  return static_cast<size_t>(it - stage.leaves.begin());
}

std::unique_ptr<Stage> make_stage(Operation op) {
  auto stage = std::make_unique<Stage>();
  stage->leaves = op->axes;
  stage->leaves.insert(stage->leaves.end(), op->reduce_axes.begin(), op->reduce_axes.end());
  stage->op = std::move(op);
  return stage;
}

/// A compute over `shape` that copies `source`.
Operation copy_of(const Tensor& source, std::string name) {
  return compute(
             source.shape(), [&](const std::vector<Expr>& i) { return source(i); }, std::move(name))
      .op();
}

/// Reads of one tensor become reads of another.
class ReadReplacer : public ExprMutator {
 public:
  ReadReplacer(const std::vector<const OperationNode*>& from, int result, Tensor to)
      : from_(from), result_(result), to_(std::move(to)) {}

 protected:
  Expr mutate_read(const ReadNode* node, const Expr& self) override {
    Expr read = ExprMutator::mutate_read(node, self);
    bool match =
        node->result == result_ && std::find(from_.begin(), from_.end(), node->op.get()) != from_.end();
    return match ? to_(read.as<ReadNode>()->indices) : read;
  }

 private:
  std::vector<const OperationNode*> from_;
  int result_;
  Tensor to_;
};

}  // namespace

std::pair<IterVarPtr, IterVarPtr> Stage::split(IterVarPtr axis, Expr factor, TailStrategy tail) {
  size_t at = leaf_position(*this, axis, "split");
  if (auto constant = constant_of(factor))
    internal_check(*constant > 0, "split of {} by {}", axis->name(), *constant);
  internal_check(tail == TailStrategy::kGuard || axis->kind == IterVar::Kind::kData,
                 "split of {}: a reduction axis cannot shift inwards", axis->name());
  IterVarPtr outer = derived_axis(axis->name() + ".o", axis->kind);
  IterVarPtr inner = derived_axis(axis->name() + ".i", axis->kind);
  leaves[at] = outer;
  leaves.insert(leaves.begin() + static_cast<std::ptrdiff_t>(at) + 1, inner);
  relations.push_back({AxisRelation::Kind::kSplit, axis, outer, inner, std::move(factor), tail});
  return {outer, inner};
}

std::array<IterVarPtr, 4> Stage::tile(IterVarPtr x, IterVarPtr y, Expr x_factor, Expr y_factor,
                                      TailStrategy tail) {
  auto [x_outer, x_inner] = split(x, std::move(x_factor), tail);
  auto [y_outer, y_inner] = split(y, std::move(y_factor), tail);
  reorder({x_outer, y_outer, x_inner, y_inner});
  return {x_outer, y_outer, x_inner, y_inner};
}

IterVarPtr Stage::fuse(IterVarPtr outer, IterVarPtr inner) {
  size_t at = leaf_position(*this, outer, "fuse");
  internal_check(at + 1 < leaves.size() && leaves[at + 1] == inner,
                 "fuse of {}: {} is not directly inside {}", op->name, inner->name(), outer->name());
  internal_check(outer->kind == inner->kind, "fuse of {}: a data axis with a reduction axis", op->name);
  IterVarPtr fused = derived_axis(outer->name() + "." + inner->name(), outer->kind);
  leaves[at] = fused;
  leaves.erase(leaves.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  relations.push_back({AxisRelation::Kind::kFuse, fused, outer, inner, Expr(), TailStrategy::kGuard});
  return fused;
}

void Stage::reorder(std::vector<IterVarPtr> order) {
  std::vector<size_t> places;
  for (const IterVarPtr& axis : order) places.push_back(leaf_position(*this, axis, "reorder"));
  std::sort(places.begin(), places.end());
  internal_check(std::adjacent_find(places.begin(), places.end()) == places.end(),
                 "reorder of {}: an axis twice", op->name);
  for (size_t i = 0; i < order.size(); ++i) leaves[places[i]] = order[i];
}

void Stage::vectorize(const IterVarPtr& axis) {
  leaf_position(*this, axis, "vectorize");
  annotations[axis.get()] = LoopKind::kVectorized;
}
void Stage::unroll(const IterVarPtr& axis) {
  leaf_position(*this, axis, "unroll");
  annotations[axis.get()] = LoopKind::kUnrolled;
}
void Stage::parallel(const IterVarPtr& axis, int64_t rounds_of_axis) {
  leaf_position(*this, axis, "parallel");
  internal_check(axis->kind == IterVar::Kind::kData, "parallel of {}: {} is a reduction axis", op->name,
                 axis->name());
  annotations[axis.get()] = LoopKind::kParallel;
  rounds = rounds_of_axis;
}

void Stage::bind(const IterVarPtr& axis, LoopKind kind) {
  leaf_position(*this, axis, "bind");
  internal_check(kind == LoopKind::kBlock || kind == LoopKind::kThread,
                 "bind of {}: {} to neither blocks nor threads", op->name, axis->name());
  internal_check(kind == LoopKind::kThread || axis->kind == IterVar::Kind::kData,
                 "bind of {}: the reduction axis {} to blocks", op->name, axis->name());
  annotations[axis.get()] = kind;
}
void Stage::tensorize(const IterVarPtr& axis, MmaShape shape) {
  internal_check(leaf_position(*this, axis, "tensorize") + 3 == leaves.size(),
                 "tensorize of {}: {} is not the third loop from inside", op->name, axis->name());
  mma = shape;
}

void Stage::tensorize_tiles(const IterVarPtr& axis, TileUnit unit) {
  internal_check(leaf_position(*this, axis, "tensorize_tiles") + 5 == leaves.size(),
                 "tensorize_tiles of {}: {} is not the fifth loop from inside", op->name, axis->name());
  tiles = unit;
}

void Stage::sum_in_half(std::vector<IterVarPtr> axes) {
  for (const IterVarPtr& axis : axes) {
    leaf_position(*this, axis, "sum_in_half");
    internal_check(axis->kind == IterVar::Kind::kReduce, "sum_in_half of {}: {} is not a reduction axis",
                   op->name, axis->name());
  }
  half_axes = std::move(axes);
}

void Stage::sum_in_parts(const IterVarPtr& axis) {
  leaf_position(*this, axis, "sum_in_parts");
  internal_check(axis->kind == IterVar::Kind::kReduce, "sum_in_parts of {}: {} is not a reduction axis",
                 op->name, axis->name());
  part_axis = axis;
}

void Stage::fetch_next(const Operation& source, const IterVarPtr& axis, int64_t elements) {
  leaf_position(*this, axis, "fetch_next");
  internal_check(elements > 0, "fetch_next of {}: {} elements", op->name, elements);
  fetches_ahead.push_back({source, axis, elements});
}

void Stage::prefetch(const IterVarPtr& axis, Tensor tensor, std::vector<Expr> indices) {
  leaf_position(*this, axis, "prefetch");
  prefetches.push_back({axis, std::move(tensor), std::move(indices)});
}

void Stage::compute_at(Stage& consumer, IterVarPtr axis) {
  internal_check(op->kind == OperationNode::Kind::kCompute, "compute_at of {}, which is no compute",
                 op->name);
  attach = AttachKind::kAt;
  attach_stage = &consumer;
  attach_axis = axis;
}
void Stage::compute_once_a_thread(Stage& consumer, IterVarPtr axis) {
  const auto kind = consumer.annotations.find(axis.get());
  internal_check(kind != consumer.annotations.end() && kind->second == LoopKind::kParallel,
                 "{} is made once a thread, but {} of {} is not parallel", op->name, axis->name(),
                 consumer.op->name);
  compute_at(consumer, std::move(axis));
  once_a_thread = true;
}
void Stage::compute_inline() {
  internal_check(op->kind == OperationNode::Kind::kCompute && op->reduce_axes.empty(),
                 "compute_inline of {}, which is not an element-by-element compute", op->name);
  attach = AttachKind::kInline;
}
void Stage::compute_root() {
  attach = AttachKind::kRoot;
  attach_stage = nullptr;
  attach_axis = nullptr;
}

Schedule::Schedule(std::vector<Tensor> outputs) : outputs_(std::move(outputs)) {
  for (const Operation& op : topological_order(outputs_)) {
    stages_.push_back(make_stage(op));
    by_op_[op.get()] = stages_.back().get();
  }
}

Stage& Schedule::operator[](const Operation& op) {
  auto it = by_op_.find(op.get());
  internal_check(it != by_op_.end(), "{} is not part of this schedule", op ? op->name : "null");
  return *it->second;
}

const Stage* Schedule::find(const OperationNode* op) const {
  auto it = by_op_.find(op);
  return it == by_op_.end() ? nullptr : it->second;
}

Stage* Schedule::insert_before(Stage& stage, Operation op) {
  auto at = std::find_if(stages_.begin(), stages_.end(), [&](const auto& s) { return s.get() == &stage; });
  auto made = make_stage(op);
  Stage* raw = made.get();
  stages_.insert(at, std::move(made));
  by_op_[op.get()] = raw;
  return raw;
}

Tensor Schedule::cache_write(const Tensor& tensor, StorageScope scope) {
  Stage& stage = (*this)[tensor];
  internal_check(stage.op->kind == OperationNode::Kind::kCompute && stage.relations.empty(),
                 "cache_write of {}: must be a compute whose loops are as first given", stage.op->name);
  auto cached = std::make_shared<OperationNode>(*stage.op);
  cached->name += ".cache";
  Tensor cache(cached, 0);
  auto copy = std::make_shared<OperationNode>(*copy_of(cache, stage.op->name));
  copy->role = stage.op->role;
  Stage* cache_stage = insert_before(stage, cached);
  cache_stage->scope = scope;
  stage.op = copy;
  stage.leaves = copy->axes;
  by_op_[copy.get()] = &stage;
  return cache;
}

Tensor Schedule::cache_read(const Tensor& tensor, StorageScope scope, const std::vector<Operation>& readers) {
  internal_check(!readers.empty(), "cache_read of {} without readers", tensor.op()->name);
  Stage& source = (*this)[tensor];
  std::vector<const OperationNode*> names;
  for (const auto& [op, stage] : by_op_) {
    if (stage == &source) names.push_back(op);
  }
  Tensor copy(copy_of(tensor, tensor.op()->name + ".read"), 0);
  auto after =
      std::find_if(stages_.begin(), stages_.end(), [&](const auto& s) { return s.get() == &source; });
  auto made = make_stage(copy.op());
  made->scope = scope;
  by_op_[copy.op().get()] = made.get();
  stages_.insert(after + 1, std::move(made));
  for (const Operation& reader : readers) {
    Stage& stage = (*this)[reader];
    auto op = std::make_shared<OperationNode>(*stage.op);
    op->body = ReadReplacer(names, tensor.result(), copy).mutate(op->body);
    stage.op = op;
    by_op_[op.get()] = &stage;
  }
  return copy;
}

}  // namespace gantry
