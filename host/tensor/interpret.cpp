#include "host/tensor/interpret.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>
#include <thread>

#include "host/support/error.h"
#include "host/support/half.h"
#include "host/tensor/vector_program.h"

namespace gantry {
namespace {

using Data = std::map<const OperationNode*, std::vector<ConstantPtr>>;

// Below this many evaluations, a thread costs more than it saves.
constexpr int64_t kThreadedWork = 1 << 16;

int64_t constant_of(const Expr& e, const OperationNode& op) {
  auto* imm = e.as<IntImmNode>();
  internal_check(imm != nullptr, "tensor {} has no constant shape: {}", op.name, to_string(e));
  return imm->value;
}

template <typename T, typename V>
void copy_as(std::byte* out, int64_t at, const V* values, int stride, int count) {
  T* target = reinterpret_cast<T*>(out) + at;
  for (int i = 0; i < count; ++i) target[i] = static_cast<T>(values[i * stride]);
}

void store_floats(DType dtype, std::byte* out, int64_t at, const double* values, int stride, int count) {
  if (dtype == DType::kF32) return copy_as<float>(out, at, values, stride, count);
  if (dtype == DType::kF64) return copy_as<double>(out, at, values, stride, count);
  auto* target = reinterpret_cast<uint16_t*>(out) + at;
  for (int i = 0; i < count; ++i) {
    auto value = static_cast<float>(values[i * stride]);
    target[i] = dtype == DType::kF16 ? f16_from_float(value) : bf16_from_float(value);
  }
}

void store_ints(DType dtype, std::byte* out, int64_t at, const int64_t* values, int stride, int count) {
  switch (byte_width(dtype)) {
    case 1: return copy_as<int8_t>(out, at, values, stride, count);
    case 2: return copy_as<int16_t>(out, at, values, stride, count);
    case 4: return copy_as<int32_t>(out, at, values, stride, count);
    default: return copy_as<int64_t>(out, at, values, stride, count);
  }
}

double combine_floats(ReduceKind kind, double a, double b) {
  switch (kind) {
    case ReduceKind::kSum: return a + b;
    case ReduceKind::kProd: return a * b;
    case ReduceKind::kMax: return std::fmax(a, b);
    case ReduceKind::kMin: return std::fmin(a, b);
    default: internal_error("a logical reduction of floats");
  }
}

int64_t combine_ints(ReduceKind kind, int64_t a, int64_t b) {
  switch (kind) {
    case ReduceKind::kSum: return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    case ReduceKind::kProd: return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    case ReduceKind::kMax: return std::max(a, b);
    case ReduceKind::kMin: return std::min(a, b);
    case ReduceKind::kAny: return a | b;
    case ReduceKind::kAll: return a & b;
  }
  internal_error("unknown reduction");
}

// One compute operation: blocks of its result, each evaluated over the reduction domain.
class Evaluation {
 public:
  Evaluation(const OperationNode& op, const Data& data) : op_(op), reduce_(op.body.as<ReduceNode>()) {
    for (const auto& axis : op.axes) extents_.push_back(constant_of(axis->extent, op));
    for (int64_t extent : extents_) volume_ *= extent;
    inner_extent_ = extents_.empty() ? 1 : extents_.back();
    Expr body = op.body;
    std::vector<Expr> reduce_vars;
    if (reduce_) {
      for (const auto& axis : reduce_->axes) {
        reduce_vars.push_back(axis->var);
        reduce_extents_.push_back(constant_of(axis->extent, op));
        reduce_lows_.push_back(constant_of(axis->low, op));
        reduce_volume_ *= reduce_extents_.back();
      }
      body = reduce_->value;
      identity_ = identity_of(reduce_->reduce, body.type().dtype);
      if (reduce_->condition) body = select(reduce_->condition, body, identity_);
    }
    program_.emplace(body, op.axes.empty() ? Expr() : op.axes.back()->var, reduce_vars, data);
  }

  ConstantPtr run(int threads) {
    std::byte* out = nullptr;
    Shape shape(extents_.begin(), extents_.end());
    auto result = allocate_constant({op_.result_dtypes[0], shape}, &out);
    if (volume_ == 0) return result;
    int64_t blocks_a_row = (inner_extent_ + VectorProgram::kBlock - 1) / VectorProgram::kBlock;
    int64_t blocks = volume_ / inner_extent_ * blocks_a_row;
    std::atomic<int64_t> next{0};
    constexpr int64_t kGrain = 16;
    auto work = [&] {
      VectorProgram::Frame frame = program_->make_frame();
      while (true) {
        int64_t first = next.fetch_add(kGrain);
        if (first >= blocks) return;
        for (int64_t b = first; b < std::min(first + kGrain, blocks); ++b) {
          run_block(frame, b / blocks_a_row, b % blocks_a_row * VectorProgram::kBlock, out);
        }
      }
    };
    if (volume_ * std::max<int64_t>(reduce_volume_, 1) < kThreadedWork) threads = 1;
    std::vector<std::thread> helpers;
    for (int i = 1; i < threads; ++i) helpers.emplace_back(work);
    work();
    for (std::thread& helper : helpers) helper.join();
    return result;
  }

 private:
  void run_block(VectorProgram::Frame& frame, int64_t row, int64_t begin, std::byte* out) const {
    int count = static_cast<int>(std::min<int64_t>(VectorProgram::kBlock, inner_extent_ - begin));
    int64_t rest = row;
    for (size_t i = extents_.size(); i-- > 1;) {
      program_->set_axis(frame, op_.axes[i - 1]->var, rest % extents_[i - 1]);
      rest /= extents_[i - 1];
    }
    int64_t at = row * inner_extent_ + begin;
    DType dtype = op_.result_dtypes[0];
    program_->run_outer(frame, begin, count);
    if (reduce_) {
      reduce_block(frame, begin, count, out, at);
    } else if (program_->result_is_float()) {
      store_floats(dtype, out, at, program_->float_result(frame), program_->result_stride(), count);
    } else {
      store_ints(dtype, out, at, program_->int_result(frame), program_->result_stride(), count);
    }
  }

  void reduce_block(VectorProgram::Frame& frame, int64_t begin, int count, std::byte* out, int64_t at) const {
    double floats[VectorProgram::kBlock];
    int64_t ints[VectorProgram::kBlock];
    bool is_float = program_->result_is_float();
    if (is_float) std::fill_n(floats, count, identity_.as<FloatImmNode>()->value);
    if (!is_float) std::fill_n(ints, count, identity_.as<IntImmNode>()->value);
    int stride = program_->result_stride();
    std::vector<int64_t> point(reduce_extents_.size(), 0);
    for (int64_t r = 0; r < reduce_volume_; ++r) {
      for (size_t i = 0; i < point.size(); ++i) {
        program_->set_axis(frame, reduce_->axes[i]->var, reduce_lows_[i] + point[i]);
      }
      program_->run_reduction(frame, begin, count);
      if (is_float) {
        const double* values = program_->float_result(frame);
        for (int i = 0; i < count; ++i) floats[i] = combine_floats(reduce_->reduce, floats[i], values[i * stride]);
      } else {
        const int64_t* values = program_->int_result(frame);
        for (int i = 0; i < count; ++i) ints[i] = combine_ints(reduce_->reduce, ints[i], values[i * stride]);
      }
      for (size_t i = point.size(); i-- > 0;) {
        if (++point[i] < reduce_extents_[i]) break;
        point[i] = 0;
      }
    }
    if (is_float) store_floats(op_.result_dtypes[0], out, at, floats, 1, count);
    if (!is_float) store_ints(op_.result_dtypes[0], out, at, ints, 1, count);
  }

  const OperationNode& op_;
  const ReduceNode* reduce_;
  std::vector<int64_t> extents_, reduce_extents_, reduce_lows_;
  int64_t volume_ = 1, reduce_volume_ = 1, inner_extent_ = 1;
  Expr identity_;
  std::optional<VectorProgram> program_;
};

}  // namespace

std::vector<ConstantPtr> interpret(const std::vector<Tensor>& outputs,
                                   const std::map<const OperationNode*, ConstantPtr>& inputs, int threads) {
  Data data;
  for (const auto& [op, constant] : inputs) data[op] = {constant};
  std::vector<Operation> order = topological_order(outputs);
  for (const Operation& op : order) {
    if (op->kind == OperationNode::Kind::kExtern) return {};
    if (op->kind == OperationNode::Kind::kPlaceholder) {
      internal_check(data.contains(op.get()), "placeholder {} has no data", op->name);
      continue;
    }
    data[op.get()] = {Evaluation(*op, data).run(std::max(1, threads))};
  }
  std::vector<ConstantPtr> results;
  for (const Tensor& output : outputs) {
    results.push_back(data.at(output.op().get())[static_cast<size_t>(output.result())]);
  }
  return results;
}

}  // namespace gantry
