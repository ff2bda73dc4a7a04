#include "host/tensor/schedule.h"

#include <algorithm>

#include "host/support/error.h"

namespace gantry {
namespace {

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

Schedule::Schedule(std::vector<Tensor> outputs) : outputs_(std::move(outputs)) {
  for (const Operation& op : topological_order(outputs_)) {
    stages_.push_back(std::make_unique<Stage>(op));
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
  auto made = std::make_unique<Stage>(op);
  Stage* raw = made.get();
  stages_.insert(at, std::move(made));
  by_op_[op.get()] = raw;
  return raw;
}

Tensor Schedule::cache_write(const Tensor& tensor, StorageScope scope) {
  Stage& stage = (*this)[tensor];
  internal_check(stage.op()->kind == OperationNode::Kind::kCompute && stage.relations().empty(),
                 "cache_write of {}: must be a compute whose loops are as first given", stage.op()->name);
  auto cached = std::make_shared<OperationNode>(*stage.op());
  cached->name += ".cache";
  Tensor cache(cached, 0);
  auto copy = std::make_shared<OperationNode>(*copy_of(cache, stage.op()->name));
  copy->role = stage.op()->role;
  Stage* cache_stage = insert_before(stage, cached);
  cache_stage->set_scope(scope);
  stage.op_ = copy;
  stage.order_ = LoopOrder(*copy);
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
  auto made = std::make_unique<Stage>(copy.op());
  made->set_scope(scope);
  by_op_[copy.op().get()] = made.get();
  stages_.insert(after + 1, std::move(made));
  for (const Operation& reader : readers) {
    Stage& stage = (*this)[reader];
    auto op = std::make_shared<OperationNode>(*stage.op());
    op->body = ReadReplacer(names, tensor.result(), copy).mutate(op->body);
    stage.op_ = op;
    by_op_[op.get()] = &stage;
  }
  return copy;
}

}  // namespace gantry
