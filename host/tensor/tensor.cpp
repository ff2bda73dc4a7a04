#include "host/tensor/tensor.h"

#include <unordered_set>

#include "host/support/error.h"

namespace gantry {
namespace {

IterVarPtr data_axis(Expr extent, std::string name) {
  auto axis = std::make_shared<IterVar>();
  axis->var = make_var(std::move(name));
  axis->low = Expr(0);
  axis->extent = std::move(extent);
  return axis;
}

void visit_producers(const Operation& op, std::unordered_set<const OperationNode*>& seen,
                     std::vector<Operation>& order) {
  if (!seen.insert(op.get()).second) return;
  for (const Tensor& input : op->extern_inputs) visit_producers(input.op(), seen, order);
  if (op->body) {
    walk(op->body, [&](const Expr& e) {
      if (const auto* read = e.as<ReadNode>()) visit_producers(read->op, seen, order);
    });
  }
  order.push_back(op);
}

}  // namespace

Expr Tensor::operator()(std::vector<Expr> indices) const {
  internal_check(op_ != nullptr, "read of a null tensor");
  internal_check(indices.size() == shape().size(), "read of {} with {} indices, it has {} dimensions",
                 op_->name, indices.size(), shape().size());
  return std::make_shared<ReadNode>(op_, result_, dtype(), std::move(indices));
}

Tensor placeholder(std::vector<Expr> shape, DType dtype, std::string name) {
  auto op = std::make_shared<OperationNode>();
  op->kind = OperationNode::Kind::kPlaceholder;
  op->name = std::move(name);
  op->result_shapes = {std::move(shape)};
  op->result_dtypes = {dtype};
  return {op, 0};
}

Tensor compute(std::vector<Expr> shape, const std::function<Expr(const std::vector<Expr>&)>& body,
               std::string name, Role role) {
  auto op = std::make_shared<OperationNode>();
  op->kind = OperationNode::Kind::kCompute;
  op->name = std::move(name);
  op->role = role;
  std::vector<Expr> vars;
  for (size_t i = 0; i < shape.size(); ++i) {
    op->axes.push_back(data_axis(shape[i], "i" + std::to_string(i)));
    vars.push_back(op->axes.back()->var);
  }
  op->body = body(vars);
  internal_check(static_cast<bool>(op->body), "compute {} has no body", op->name);
  if (const auto* root = op->body.as<ReduceNode>()) op->reduce_axes = root->axes;
  walk(op->body, [&](const Expr& e) {
    internal_check(!e.as<ReduceNode>() || e.same_as(op->body),
                   "compute {}: a reduction must be the root of its body", op->name);
  });
  op->result_dtypes = {op->body.type().dtype};
  op->result_shapes = {std::move(shape)};
  return {op, 0};
}

std::vector<Tensor> extern_kernel(std::vector<Tensor> inputs, std::vector<std::vector<Expr>> result_shapes,
                                  std::vector<DType> result_dtypes, std::function<void(LoopBuilder&)> body,
                                  std::string name, std::function<void(LoopBuilder&)> gpu_body) {
  internal_check(result_shapes.size() == result_dtypes.size(), "extern {}: shapes and types differ in number",
                 name);
  auto op = std::make_shared<OperationNode>();
  op->kind = OperationNode::Kind::kExtern;
  op->name = std::move(name);
  op->extern_inputs = std::move(inputs);
  op->extern_body = std::move(body);
  op->extern_gpu_body = std::move(gpu_body);
  op->result_shapes = std::move(result_shapes);
  op->result_dtypes = std::move(result_dtypes);
  std::vector<Tensor> results;
  for (size_t i = 0; i < op->result_shapes.size(); ++i) results.emplace_back(op, static_cast<int>(i));
  return results;
}

IterVarPtr reduce_axis(Expr low, Expr extent, std::string name) {
  auto axis = data_axis(std::move(extent), std::move(name));
  axis->low = std::move(low);
  axis->kind = IterVar::Kind::kReduce;
  return axis;
}

Expr reduce(ReduceKind kind, Expr value, std::vector<IterVarPtr> axes, Expr condition) {
  internal_check(!axes.empty(), "reduction without axes");
  return std::make_shared<ReduceNode>(kind, std::move(value), std::move(axes), std::move(condition));
}

std::vector<Expr> to_exprs(const Shape& shape) {
  std::vector<Expr> exprs;
  for (const Dim& dim : shape) exprs.emplace_back(dim);
  return exprs;
}

std::vector<Operation> topological_order(const std::vector<Tensor>& outputs) {
  std::unordered_set<const OperationNode*> seen;
  std::vector<Operation> order;
  for (const Tensor& output : outputs) visit_producers(output.op(), seen, order);
  return order;
}

}  // namespace gantry
