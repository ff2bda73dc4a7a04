#include "host/tensor/interpret_arithmetic.h"

#include <algorithm>
#include <optional>
#include <thread>

#include "host/support/start_thread.h"
#include "host/tensor/interpret_offsets.h"

namespace gantry::interpreter {
namespace {

struct Operand {
  const float* data = nullptr;
  Offsets offsets;
};

/// What each step along an axis adds to the index; nothing where steps differ.
std::optional<int64_t> step_of(const std::vector<int64_t>& table) {
  if (table.size() < 2) return 0;
  const int64_t step = table[1] - table[0];
  for (size_t i = 2; i < table.size(); ++i) {
    if (table[i] - table[i - 1] != step) return std::nullopt;
  }
  return step;
}

/// The last axes as one row, along which an operand is read element by element or stands still.
struct Row {
  size_t first_axis = 0;  ///< of those that are one
  int64_t length = 1;
  bool moves = false;
};

/// The longest such row.
Row row_of(const Operand& operand, const std::vector<int64_t>& shape) {
  Row row{shape.size(), 1, false};
  while (row.first_axis > 0) {
    const size_t axis = row.first_axis - 1;
    const auto step = step_of(operand.offsets.of_axis[axis]);
    const bool fits = shape[axis] == 1 || (step && (row.length == 1 ? *step == 0 || *step == 1
                                                                    : *step == (row.moves ? row.length : 0)));
    if (!fits) break;
    if (shape[axis] > 1 && row.length == 1) row.moves = *step == 1;
    row.length *= shape[axis];
    row.first_axis = axis;
  }
  return row;
}

template <typename Operator>
void combine_row(const float* a, bool a_moves, const float* b, bool b_moves, float* out, int64_t count,
                 Operator combine) {
  if (a_moves && b_moves) {
    for (int64_t i = 0; i < count; ++i) out[i] = combine(a[i], b[i]);
  } else if (a_moves) {
    for (int64_t i = 0; i < count; ++i) out[i] = combine(a[i], *b);
  } else if (b_moves) {
    for (int64_t i = 0; i < count; ++i) out[i] = combine(*a, b[i]);
  } else {
    std::fill(out, out + count, combine(*a, *b));
  }
}

class Rows {
 public:
  Rows(BinaryOp op, const Operand& a, const Operand& b, const std::vector<int64_t>& shape, float* out)
      : op_(op), a_(a), b_(b), shape_(shape), out_(out) {
    const Row of_a = row_of(a, shape), of_b = row_of(b, shape);
    first_axis_ = std::max(of_a.first_axis, of_b.first_axis);
    for (size_t d = 0; d < shape.size(); ++d) (d < first_axis_ ? count_ : length_) *= shape[d];
    a_moves_ = of_a.moves;
    b_moves_ = of_b.moves;
  }

  int64_t count() const { return count_; }
  int64_t length() const { return length_; }

  void run(int64_t row) const {
    int64_t rest = row, at_a = a_.offsets.base, at_b = b_.offsets.base;
    for (size_t d = first_axis_; d-- > 0;) {
      const auto i = static_cast<size_t>(rest % shape_[d]);
      rest /= shape_[d];
      at_a += a_.offsets.of_axis[d][i];
      at_b += b_.offsets.of_axis[d][i];
    }
    for (size_t d = first_axis_; d < shape_.size(); ++d) {
      at_a += a_.offsets.of_axis[d][0];
      at_b += b_.offsets.of_axis[d][0];
    }
    const auto combined = [&](auto combine) {
      combine_row(a_.data + at_a, a_moves_, b_.data + at_b, b_moves_, out_ + row * length_, length_, combine);
    };
    switch (op_) {
      case BinaryOp::kAdd:
        return combined([](float x, float y) { return x + y; });
      case BinaryOp::kSub:
        return combined([](float x, float y) { return x - y; });
      case BinaryOp::kMul:
        return combined([](float x, float y) { return x * y; });
      default:
        return combined([](float x, float y) { return x / y; });
    }
  }

 private:
  BinaryOp op_;
  const Operand &a_, &b_;
  const std::vector<int64_t>& shape_;
  float* out_;
  size_t first_axis_ = 0;
  int64_t count_ = 1, length_ = 1;
  bool a_moves_ = false, b_moves_ = false;
};

std::optional<Operand> operand_of(const Expr& e, const OperationNode& op, const Arrays& arrays,
                                  const RangeMap& ranges, const std::vector<int64_t>& shape) {
  const auto* read = e.as<ReadNode>();
  if (read == nullptr || read->type.dtype != DType::kF32) return std::nullopt;
  const Array& source = arrays.at({read->op.get(), read->result});
  auto offsets = separate(op, *read, ranges, source, shape);
  if (!offsets) return std::nullopt;
  return Operand{reinterpret_cast<const float*>(source.bytes), *std::move(offsets)};
}

void run_all(const Rows& rows, int threads) {
  constexpr int64_t kWorthSharing = 1 << 18;  // elements
  const int64_t count = rows.count();
  if (count * rows.length() < kWorthSharing) threads = 1;
  const auto share = [&](int t) {
    for (int64_t i = count * t / threads; i < count * (t + 1) / threads; ++i) rows.run(i);
  };
  std::vector<std::thread> pool;
  int started = 1;
  while (started < threads && start_thread(pool, share, started)) ++started;
  share(0);
  for (int t = started; t < threads; ++t) share(t);
  for (std::thread& thread : pool) thread.join();
}

}  // namespace

bool combine_elements(const OperationNode& op, const Arrays& arrays, const std::vector<int64_t>& shape,
                      std::byte* out, int threads) {
  const auto* body = op.body.as<BinaryNode>();
  const bool is_arithmetic = body && (body->op == BinaryOp::kAdd || body->op == BinaryOp::kSub ||
                                      body->op == BinaryOp::kMul || body->op == BinaryOp::kDiv);
  if (!is_arithmetic || op.result_dtypes[0] != DType::kF32 || op.axes.size() != shape.size()) return false;
  const RangeMap ranges = ranges_of(op, shape);
  const auto a = operand_of(body->a, op, arrays, ranges, shape), b = operand_of(body->b, op, arrays, ranges, shape);
  if (!a || !b) return false;
  const Rows rows(body->op, *a, *b, shape, reinterpret_cast<float*>(out));
  // Of short rows blocks of several are faster.
  constexpr int64_t kShortRow = 8;
  if (rows.length() < kShortRow) return false;
  run_all(rows, std::max(threads, 1));
  return true;
}

}  // namespace gantry::interpreter
