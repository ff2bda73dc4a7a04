// Computes a tensor-expression graph block by block: each node of the body works on about a thousand elements
// at a time, which are one or several whole rows, or a part of a row, of the result.
#include "host/tensor/interpret.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "host/support/error.h"
#include "host/support/start_thread.h"
#include "host/tensor/fold.h"
#include "host/tensor/interpret_arithmetic.h"
#include "host/tensor/interpret_block.h"
#include "host/tensor/interpret_copy.h"
#include "host/tensor/simplify.h"

namespace gantry {
namespace {

using interpreter::Array;
using interpreter::Block;
using interpreter::Mask;

constexpr int64_t kBlock = 1024;
/// Rows shorter than this are computed several at once.
constexpr int64_t kShortRow = 128;

using interpreter::Arrays;

int64_t constant_extent(const Expr& e, const OperationNode& op) {
  auto value = constant_of(simplify(e));
  internal_check(value.has_value(), "{} cannot be evaluated: its extent {} is not constant", op.name,
                 to_string(e));
  return *value;
}

/// Computes elements [first, last) of one compute operation.
class Worker {
 public:
  Worker(const OperationNode& op, const Arrays& arrays, std::vector<int64_t> shape, std::byte* out)
      : op_(op), arrays_(arrays), shape_(std::move(shape)), out_(out) {}

  void run(int64_t first, int64_t last) {
    int64_t row = shape_.empty() ? 1 : shape_.back();
    for (int64_t at = first; at < last;) {
      int64_t in_row = at % row;
      int64_t count = row < kShortRow && in_row == 0
                          ? std::min(last - at, std::max<int64_t>(1, kBlock / row) * row)
                          : std::min({last - at, row - in_row, kBlock});
      compute_block(at, count, row);
      at += count;
    }
  }

 private:
  void compute_block(int64_t at, int64_t count, int64_t row) {
    count_ = static_cast<size_t>(count);
    bool several = at % row + count > row;
    if (several)
      set_rows(at, count);
    else
      set_row(at);
    Block result = op_.body.as<ReduceNode>() ? reduce(*op_.body.as<ReduceNode>()) : eval(op_.body);
    DType dtype = op_.result_dtypes[0];
    interpreter::scatter(dtype, out_ + at * byte_width(dtype), std::move(result), count_);
  }

  void set_row(int64_t at) {
    for (size_t d = shape_.size(); d-- > 0;) {
      vars_[op_.axes[d]->var.as<VarNode>()] = Block::ramp(at % shape_[d], d + 1 == shape_.size() ? 1 : 0);
      at /= shape_[d];
    }
  }

  /// The block covers several rows: the axes' values are written out, unless they are the same everywhere.
  void set_rows(int64_t at, int64_t count) {
    std::vector<int64_t> index(shape_.size());
    int64_t rest = at;
    for (size_t d = shape_.size(); d-- > 0;) {
      index[d] = rest % shape_[d];
      rest /= shape_[d];
    }
    std::vector<Block> values(shape_.size());
    for (Block& b : values) {
      b.form = Block::Form::kInts;
      b.ints.resize(static_cast<size_t>(count));
    }
    auto row = static_cast<size_t>(shape_.back());
    size_t last = shape_.size() - 1;
    for (size_t start = 0; start < static_cast<size_t>(count); start += row) {
      size_t end = std::min(start + row, static_cast<size_t>(count));
      for (size_t i = start; i < end; ++i) values[last].ints[i] = static_cast<int64_t>(i - start);
      for (size_t d = 0; d < last; ++d)
        std::fill(values[d].ints.begin() + static_cast<std::ptrdiff_t>(start),
                  values[d].ints.begin() + static_cast<std::ptrdiff_t>(end), index[d]);
      for (size_t d = last; d-- > 0;) {
        if (++index[d] < shape_[d]) break;
        index[d] = 0;
      }
    }
    for (size_t d = 0; d < shape_.size(); ++d) {
      bool same = d != last && values[d].ints.front() == values[d].ints.back() &&
                  std::all_of(values[d].ints.begin(), values[d].ints.end(),
                              [&](int64_t x) { return x == values[d].ints.front(); });
      vars_[op_.axes[d]->var.as<VarNode>()] =
          same ? Block::ramp(values[d].ints.front(), 0) : std::move(values[d]);
    }
  }

  Block reduce(const ReduceNode& node) {
    DType dtype = node.type.dtype;
    // Sums of floats gather in f64 and are rounded once.
    DType wide = is_float(dtype) ? DType::kF64 : dtype;
    Expr identity = identity_of(node.reduce, dtype);
    total_ = eval(identity);
    interpreter::spread(total_, count_);
    reduce_axis(node, 0, wide);
    interpreter::round_to(total_, dtype);
    return std::move(total_);
  }

  void reduce_axis(const ReduceNode& node, size_t axis, DType wide) {
    if (axis == node.axes.size()) {
      Block value;
      if (!node.condition) {
        value = eval(node.value);
      } else {
        Expr identity = identity_of(node.reduce, node.type.dtype);
        value = eval_call(CallNode(MathFn::kIfThenElse, node.type, {node.condition, node.value, identity}));
      }
      static constexpr BinaryOp kOps[] = {BinaryOp::kAdd, BinaryOp::kMul, BinaryOp::kMax, BinaryOp::kMin,
                                          BinaryOp::kOr,  BinaryOp::kAnd, BinaryOp::kMax, BinaryOp::kMin};
      const bool nan_passes = node.reduce == ReduceKind::kMaxOrNan || node.reduce == ReduceKind::kMinOrNan;
      total_ = interpreter::apply_binary(kOps[static_cast<size_t>(node.reduce)], wide, std::move(total_),
                                         std::move(value), count_, nan_passes);
      return;
    }
    const IterVar& iv = *node.axes[axis];
    int64_t low = constant_of(iv.low).value_or(0), extent = 0;
    auto it = extents_.find(&iv);
    if (it == extents_.end()) it = extents_.emplace(&iv, constant_extent(iv.extent, op_)).first;
    extent = it->second;
    for (int64_t i = low; i < low + extent; ++i) {
      vars_[iv.var.as<VarNode>()] = Block::ramp(i, 0);
      reduce_axis(node, axis + 1, wide);
    }
  }

  Block eval(const Expr& e) {
    switch (e->kind) {
      case ExprKind::kIntImm:
        return Block::ramp(e.as<IntImmNode>()->value, 0);
      case ExprKind::kFloatImm:
        return Block::uniform(e.as<FloatImmNode>()->value);
      case ExprKind::kVar: {
        auto it = vars_.find(e.as<VarNode>());
        if (it == vars_.end())
          internal_error("{} cannot be evaluated: {} has no value", op_.name, to_string(e));
        return it->second;
      }
      case ExprKind::kBinary: {
        const auto* node = e.as<BinaryNode>();
        Block a = eval(node->a);
        return interpreter::apply_binary(node->op, node->a.type().dtype, std::move(a), eval(node->b), count_,
                                         passes_nan(*node));
      }
      case ExprKind::kUnary:
        return interpreter::apply_unary(e.as<UnaryNode>()->op, e.type().dtype, eval(e.as<UnaryNode>()->a));
      case ExprKind::kCall:
        return eval_call(*e.as<CallNode>());
      case ExprKind::kSelect: {
        const auto* node = e.as<SelectNode>();
        Block c = eval(node->condition), t = eval(node->if_true);
        return interpreter::choose(c, std::move(t), eval(node->if_false), count_);
      }
      case ExprKind::kCast: {
        Block a = eval(e.as<CastNode>()->a);
        if (!a.is_uniform()) interpreter::spread(a, count_);
        return interpreter::apply_cast(e.as<CastNode>()->a.type().dtype, e.type().dtype, std::move(a));
      }
      case ExprKind::kRead:
        return eval_read(*e.as<ReadNode>());
      case ExprKind::kLet: {
        const auto* node = e.as<LetNode>();
        vars_[node->var.as<VarNode>()] = eval(node->value);
        return eval(node->body);
      }
      default:
        internal_error("{} cannot be evaluated: {}", op_.name, to_string(e));
    }
  }

  Block eval_call(const CallNode& node) {
    if (node.fn == MathFn::kIfThenElse) {
      Block condition = eval(node.args[0]);
      if (condition.is_uniform()) return eval(node.args[condition.base ? 1 : 2]);
      interpreter::spread(condition, count_);
      Block t = eval_under(condition, true, node.args[1]);
      Block f = eval_under(condition, false, node.args[2]);
      return interpreter::choose(condition, std::move(t), std::move(f), count_);
    }
    std::vector<Block> args;
    for (const Expr& arg : node.args) args.push_back(eval(arg));
    return interpreter::apply_call(node.fn, node.args[0].type().dtype, std::move(args), count_);
  }

  Block eval_under(const Block& condition, bool when, const Expr& e) {
    if (e.as<IntImmNode>() || e.as<FloatImmNode>()) return eval(e);
    std::vector<int64_t> lanes = condition.ints;
    for (size_t i = 0; i < lanes.size(); ++i) lanes[i] = (lanes[i] != 0) == when && (!mask_ || (*mask_)[i]);
    Mask outer = mask_;
    mask_ = &lanes;
    Block result = eval(e);
    mask_ = outer;
    return result;
  }

  Block eval_read(const ReadNode& node) {
    const Array& array = arrays_.at({node.op.get(), node.result});
    Block flat = Block::ramp(0, 0);
    for (size_t d = 0; d < node.indices.size(); ++d) {
      Block index = interpreter::apply_binary(BinaryOp::kMul, DType::kI64, eval(node.indices[d]),
                                              Block::ramp(array.strides[d], 0), count_);
      flat =
          interpreter::apply_binary(BinaryOp::kAdd, DType::kI64, std::move(flat), std::move(index), count_);
    }
    return interpreter::gather(array, std::move(flat), count_, mask_, node.op->name);
  }

  const OperationNode& op_;
  const Arrays& arrays_;
  std::vector<int64_t> shape_;
  std::byte* out_;
  size_t count_ = 0;
  Mask mask_ = nullptr;
  Block total_;
  std::unordered_map<const VarNode*, Block> vars_;
  std::unordered_map<const IterVar*, int64_t> extents_;
};

Array array_of(const ConstantPtr& data, const std::vector<int64_t>& shape) {
  Array array{data->type.dtype, data->bytes, 1, std::vector<int64_t>(shape.size())};
  for (size_t d = shape.size(); d-- > 0;) {
    array.strides[d] = array.count;
    array.count *= shape[d];
  }
  return array;
}

void run_on_threads(const OperationNode& op, const Arrays& arrays, const std::vector<int64_t>& shape,
                    std::byte* out, int64_t count, int threads) {
  int64_t row = shape.empty() || shape.back() == 0 ? 1 : shape.back();
  int64_t rows = count / row;
  if (count < 32 * kBlock || threads < 2) return Worker(op, arrays, shape, out).run(0, count);
  std::vector<std::thread> pool;
  std::exception_ptr failure;
  std::mutex mutex;
  bool by_row = rows >= threads;
  int64_t units = by_row ? rows : count;
  for (int t = 0; t < threads; ++t) {
    int64_t first = units * t / threads * (by_row ? row : 1),
            last = units * (t + 1) / threads * (by_row ? row : 1);
    const auto share = [&, first, last] {
      try {
        Worker(op, arrays, shape, out).run(first, last);
      } catch (...) {
        std::lock_guard lock(mutex);
        failure = std::current_exception();
      }
    };
    if (!start_thread(pool, share)) share();
  }
  for (std::thread& thread : pool) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

std::vector<ConstantPtr> interpret(const std::vector<Tensor>& outputs,
                                   const std::map<const OperationNode*, ConstantPtr>& inputs, int threads) {
  Arrays arrays;
  std::map<const OperationNode*, ConstantPtr> values;
  for (const Operation& op : topological_order(outputs)) {
    if (op->kind == OperationNode::Kind::kExtern) return {};
    std::vector<int64_t> shape;
    for (const Expr& extent : op->result_shapes[0]) shape.push_back(constant_extent(extent, *op));
    if (op->kind == OperationNode::Kind::kPlaceholder) {
      auto it = inputs.find(op.get());
      internal_check(it != inputs.end() && it->second, "no data for {}", op->name);
      values[op.get()] = it->second;
    } else {
      TensorType type{op->result_dtypes[0], Shape(shape.begin(), shape.end())};
      std::byte* bytes = nullptr;
      std::shared_ptr<ConstantData> data = allocate_constant(type, &bytes);
      int64_t count = 1;
      for (int64_t extent : shape) count *= extent;
      const bool done = count == 0 || interpreter::copy_elements(*op, arrays, shape, bytes, threads) ||
                        interpreter::combine_elements(*op, arrays, shape, bytes, threads);
      if (!done) run_on_threads(*op, arrays, shape, bytes, count, threads);
      values[op.get()] = data;
    }
    Array array = array_of(values[op.get()], shape);
    internal_check(static_cast<int64_t>(values[op.get()]->size) >= array.count * byte_width(array.dtype),
                   "data of {} is too short", op->name);
    arrays[{op.get(), 0}] = array;
  }
  std::vector<ConstantPtr> results;
  for (const Tensor& output : outputs) results.push_back(values.at(output.op().get()));
  return results;
}

}  // namespace gantry
