#include "host/tensor/vector_program.h"

#include "host/support/error.h"

namespace gantry {

VectorProgram::VectorProgram(const Expr& body, const Expr& inner, const std::vector<Expr>& reduce_vars,
                             const std::map<const OperationNode*, std::vector<ConstantPtr>>& data)
    : inner_(inner), reduce_vars_(reduce_vars), data_(data) {
  int result = compile(body);
  // The result is the last step, also where it is an operand of nothing new.
  if (result != static_cast<int>(steps_.size()) - 1) {
    Step copy;
    copy.kind = Kind::kCast;
    copy.dtype = steps_[static_cast<size_t>(result)].dtype;
    copy.a = result;
    add(copy);
  }
}

int VectorProgram::add(Step step) {
  step.is_float = is_float(step.dtype);
  for (int operand : {step.a, step.b, step.c}) {
    if (operand < 0) continue;
    step.varies = step.varies || steps_[static_cast<size_t>(operand)].varies;
    step.reduces = step.reduces || steps_[static_cast<size_t>(operand)].reduces;
  }
  steps_.push_back(std::move(step));
  return static_cast<int>(steps_.size()) - 1;
}

int VectorProgram::add_int(int64_t value) {
  Step step;
  step.int_value = value;
  return add(step);
}

int VectorProgram::add_int_binary(BinaryOp op, int a, int b) {
  Step step;
  step.kind = Kind::kBinary;
  step.op = static_cast<int>(op);
  step.a = a;
  step.b = b;
  return add(step);
}

int VectorProgram::compile_read(const ReadNode& read) {
  auto source = data_.find(read.op.get());
  internal_check(source != data_.end(), "tensor {} has no data", read.op->name);
  const ConstantPtr& tensor = source->second[static_cast<size_t>(read.result)];
  auto shape = constant_shape(tensor->type.shape).value();
  internal_check(shape.size() == read.indices.size(), "tensor {} is read with {} indices", read.op->name,
                 read.indices.size());
  int flat = add_int(0);
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1) {
      int index = compile(read.indices[i]);
      if (stride != 1) index = add_int_binary(BinaryOp::kMul, index, add_int(stride));
      flat = add_int_binary(BinaryOp::kAdd, flat, index);
    }
    stride *= shape[i];
  }
  Step step;
  step.kind = Kind::kRead;
  step.dtype = tensor->type.dtype;
  step.a = flat;
  step.source = tensor;
  step.int_value = stride;
  return add(step);
}

int VectorProgram::compile(const Expr& e) {
  if (auto known = known_.find(e.get()); known != known_.end()) return known->second;
  keep_alive_.push_back(e);
  Step step;
  step.dtype = e.type().dtype;
  int index = -1;
  switch (e->kind) {
    case ExprKind::kIntImm: step.int_value = e.as<IntImmNode>()->value; break;
    case ExprKind::kFloatImm: step.float_value = e.as<FloatImmNode>()->value; break;
    case ExprKind::kVar: {
      step.kind = e.same_as(inner_) ? Kind::kInner : Kind::kAxis;
      step.varies = step.kind == Kind::kInner;
      for (const Expr& var : reduce_vars_) step.reduces = step.reduces || var.same_as(e);
      index = add(step);
      axes_[e.as<VarNode>()] = index;
      break;
    }
    case ExprKind::kBinary: {
      auto* node = e.as<BinaryNode>();
      step.kind = Kind::kBinary;
      step.op = static_cast<int>(node->op);
      step.a = compile(node->a);
      step.b = compile(node->b);
      break;
    }
    case ExprKind::kUnary: {
      step.kind = Kind::kUnary;
      step.op = static_cast<int>(e.as<UnaryNode>()->op);
      step.a = compile(e.as<UnaryNode>()->a);
      break;
    }
    case ExprKind::kCall: {
      auto* node = e.as<CallNode>();
      step.kind = node->fn == MathFn::kIfThenElse ? Kind::kSelect : Kind::kCall;
      step.op = static_cast<int>(node->fn);
      step.a = compile(node->args[0]);
      if (node->args.size() > 1) step.b = compile(node->args[1]);
      if (node->args.size() > 2) step.c = compile(node->args[2]);
      break;
    }
    case ExprKind::kSelect: {
      auto* node = e.as<SelectNode>();
      step.kind = Kind::kSelect;
      step.a = compile(node->condition);
      step.b = compile(node->if_true);
      step.c = compile(node->if_false);
      break;
    }
    case ExprKind::kCast:
      step.kind = Kind::kCast;
      step.a = compile(e.as<CastNode>()->a);
      break;
    case ExprKind::kRead: index = compile_read(*e.as<ReadNode>()); break;
    case ExprKind::kLet: {
      auto* node = e.as<LetNode>();
      known_[node->var.get()] = compile(node->value);
      index = compile(node->body);
      break;
    }
    default: internal_error("cannot interpret {}", to_string(e));
  }
  if (index < 0) index = add(step);
  known_[e.get()] = index;
  return index;
}

VectorProgram::Frame VectorProgram::make_frame() const {
  Frame frame;
  frame.floats.resize(slot(steps_.size()));
  frame.ints.resize(slot(steps_.size()));
  for (size_t i = 0; i < steps_.size(); ++i) {
    frame.floats[slot(i)] = steps_[i].float_value;
    frame.ints[slot(i)] = steps_[i].int_value;
  }
  return frame;
}

void VectorProgram::set_axis(Frame& frame, const Expr& var, int64_t value) const {
  auto axis = axes_.find(var.as<VarNode>());
  if (axis != axes_.end()) frame.ints[slot(static_cast<size_t>(axis->second))] = value;
}

void VectorProgram::run(Frame& frame, int64_t begin, int count, bool reduction) const {
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (step.reduces != reduction) continue;
    if (step.kind == Kind::kInner) {
      for (int k = 0; k < count; ++k) frame.ints[slot(i) + static_cast<size_t>(k)] = begin + k;
    } else if (step.kind != Kind::kConstant && step.kind != Kind::kAxis) {
      execute(frame, i, step.varies ? count : 1);
    }
  }
}

}  // namespace gantry
