#include "host/tensor/stage.h"

#include "host/support/error.h"

namespace gantry {

Stage::Stage(Operation op) : op_(std::move(op)), order_(*op_) {}

std::pair<IterVarPtr, IterVarPtr> Stage::split(IterVarPtr axis, Expr factor, TailStrategy tail) {
  return order_.split(std::move(axis), std::move(factor), tail);
}

std::array<IterVarPtr, 4> Stage::tile(IterVarPtr x, IterVarPtr y, Expr x_factor, Expr y_factor,
                                      TailStrategy tail) {
  auto [x_outer, x_inner] = split(x, std::move(x_factor), tail);
  auto [y_outer, y_inner] = split(y, std::move(y_factor), tail);
  reorder({x_outer, y_outer, x_inner, y_inner});
  return {x_outer, y_outer, x_inner, y_inner};
}

IterVarPtr Stage::fuse(IterVarPtr outer, IterVarPtr inner) {
  return order_.fuse(std::move(outer), std::move(inner));
}

void Stage::reorder(std::vector<IterVarPtr> order) {
  order_.reorder(order);
}

void Stage::vectorize(const IterVarPtr& axis) {
  order_.position_of(axis, "vectorize");
  kinds_.set(axis.get(), LoopKind::kVectorized);
}
void Stage::unroll(const IterVarPtr& axis) {
  order_.position_of(axis, "unroll");
  kinds_.set(axis.get(), LoopKind::kUnrolled);
}
void Stage::parallel(const IterVarPtr& axis, int64_t rounds) {
  order_.position_of(axis, "parallel");
  internal_check(axis->kind == IterVar::Kind::kData, "parallel of {}: {} is a reduction axis", op_->name,
                 axis->name());
  kinds_.set_parallel(axis.get(), rounds);
}

void Stage::bind(const IterVarPtr& axis, LoopKind kind) {
  order_.position_of(axis, "bind");
  internal_check(kind == LoopKind::kBlock || kind == LoopKind::kThread,
                 "bind of {}: {} to neither blocks nor threads", op_->name, axis->name());
  internal_check(kind == LoopKind::kThread || axis->kind == IterVar::Kind::kData,
                 "bind of {}: the reduction axis {} to blocks", op_->name, axis->name());
  kinds_.set(axis.get(), kind);
}
void Stage::tensorize(const IterVarPtr& axis, MmaShape shape) {
  internal_check(order_.position_of(axis, "tensorize") + 3 == leaves().size(),
                 "tensorize of {}: {} is not the third loop from inside", op_->name, axis->name());
  instruction_ = shape;
}

void Stage::tensorize_tiles(const IterVarPtr& axis, TileUnit unit) {
  internal_check(order_.position_of(axis, "tensorize_tiles") + 5 == leaves().size(),
                 "tensorize_tiles of {}: {} is not the fifth loop from inside", op_->name, axis->name());
  instruction_ = unit;
}

void Stage::read_rows_below(Expr end) {
  internal_check(op_->axes.size() > 1, "read_rows_below of {}, which has no rows", op_->name);
  region_.rows_end = std::move(end);
}

void Stage::sum_in_half(std::vector<IterVarPtr> axes) {
  for (const IterVarPtr& axis : axes) {
    order_.position_of(axis, "sum_in_half");
    internal_check(axis->kind == IterVar::Kind::kReduce, "sum_in_half of {}: {} is not a reduction axis",
                   op_->name, axis->name());
  }
  summation_.half_axes = std::move(axes);
}

void Stage::sum_in_parts(const IterVarPtr& axis) {
  order_.position_of(axis, "sum_in_parts");
  internal_check(axis->kind == IterVar::Kind::kReduce, "sum_in_parts of {}: {} is not a reduction axis",
                 op_->name, axis->name());
  summation_.part_axis = axis;
}

void Stage::fetch_next(const Operation& source, const IterVarPtr& axis, int64_t elements) {
  order_.position_of(axis, "fetch_next");
  internal_check(elements > 0, "fetch_next of {}: {} elements", op_->name, elements);
  prefetches_.ahead.push_back({source, axis, elements});
}

void Stage::prefetch(const IterVarPtr& axis, Tensor tensor, std::vector<Expr> indices) {
  order_.position_of(axis, "prefetch");
  prefetches_.hints.push_back({axis, std::move(tensor), std::move(indices)});
}

void Stage::compute_at(Stage& consumer, IterVarPtr axis) {
  internal_check(op_->kind == OperationNode::Kind::kCompute, "compute_at of {}, which is no compute",
                 op_->name);
  attachment_ = Attachment::at(consumer, std::move(axis));
}
void Stage::compute_once_a_thread(Stage& consumer, IterVarPtr axis) {
  internal_check(consumer.kinds().of(axis.get()) == LoopKind::kParallel,
                 "{} is made once a thread, but {} of {} is not parallel", op_->name, axis->name(),
                 consumer.op_->name);
  compute_at(consumer, axis);
  attachment_ = Attachment::once_a_thread_at(consumer, std::move(axis));
}
void Stage::compute_inline() {
  internal_check(op_->kind == OperationNode::Kind::kCompute && op_->reduce_axes.empty(),
                 "compute_inline of {}, which is not an element-by-element compute", op_->name);
  attachment_ = Attachment::inlined();
}
void Stage::compute_root() {
  attachment_ = Attachment::root();
}

}  // namespace gantry
