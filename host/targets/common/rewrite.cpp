#include "host/targets/common/rewrite.h"

namespace gantry {
namespace {

using Renamed = std::map<const OperationNode*, Tensor>;

class ReadRewriter : public ExprMutator {
 public:
  explicit ReadRewriter(const Renamed& renamed) : renamed_(renamed) {}

 protected:
  Expr mutate_read(const ReadNode* node, const Expr& self) override {
    Expr read = ExprMutator::mutate_read(node, self);
    auto it = renamed_.find(node->op.get());
    if (it == renamed_.end()) return read;
    return Tensor(it->second.op(), node->result)(read.as<ReadNode>()->indices);
  }

 private:
  const Renamed& renamed_;
};

/// What takes an operation's place comes from the same nodes.
void inherit_source(const OperationNode& replaced, const Tensor& replacement) {
  for (const Operation& op : topological_order({replacement})) {
    if (op->kind == OperationNode::Kind::kPlaceholder || !op->source.empty()) continue;
    op->source = replaced.source;
    op->decision = replaced.decision;
  }
}

}  // namespace

std::vector<Tensor> replace_tensors(const std::vector<Tensor>& outputs,
                                    const std::map<const OperationNode*, Tensor>& replacements) {
  Renamed renamed = replacements;
  for (const auto& [replaced, replacement] : replacements) inherit_source(*replaced, replacement);
  auto now = [&](const Tensor& t) {
    auto it = renamed.find(t.op().get());
    return it == renamed.end() ? t : Tensor(it->second.op(), t.result());
  };
  for (const Operation& op : topological_order(outputs)) {
    if (renamed.count(op.get()) || op->kind == OperationNode::Kind::kPlaceholder) continue;
    auto copy = std::make_shared<OperationNode>(*op);
    bool changed = false;
    if (op->body) {
      copy->body = ReadRewriter(renamed).mutate(op->body);
      changed = !copy->body.same_as(op->body);
    }
    for (Tensor& input : copy->extern_inputs) {
      Tensor replaced = now(input);
      changed = changed || !(replaced == input);
      input = replaced;
    }
    if (changed) renamed[op.get()] = Tensor(copy, 0);
  }
  std::vector<Tensor> result;
  for (const Tensor& output : outputs) result.push_back(now(output));
  return result;
}

}  // namespace gantry
