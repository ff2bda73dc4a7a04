#include "host/tensor/interpret_copy.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <thread>

#include "host/tensor/fold.h"
#include "host/tensor/simplify.h"

namespace gantry::interpreter {
namespace {

/// The index into the source as a constant and a table an axis of the result.
struct Offsets {
  int64_t base = 0;
  std::vector<std::vector<int64_t>> of_axis;
};

/// Splits an index expression into parts that depend on one axis each.
class Separator {
 public:
  Separator(const OperationNode& op, const std::vector<int64_t>& shape) : shape_(shape) {
    for (const auto& axis : op.axes) vars_.push_back(axis->var.as<VarNode>());
    for (int64_t extent : shape) offsets_.of_axis.emplace_back(static_cast<size_t>(extent), 0);
  }

  bool add(const Expr& e, int64_t factor) {
    if (const auto* imm = e.as<IntImmNode>()) {
      offsets_.base += imm->value * factor;
      return true;
    }
    if (const auto* binary = e.as<BinaryNode>()) {
      if (binary->op == BinaryOp::kAdd) return add(binary->a, factor) && add(binary->b, factor);
      if (binary->op == BinaryOp::kSub) return add(binary->a, factor) && add(binary->b, -factor);
      if (binary->op == BinaryOp::kMul) {
        if (const auto* imm = binary->b.as<IntImmNode>()) return add(binary->a, factor * imm->value);
        if (const auto* imm = binary->a.as<IntImmNode>()) return add(binary->b, factor * imm->value);
      }
    }
    return add_table(e, factor);
  }

  Offsets take() { return std::move(offsets_); }

 private:
  static constexpr int kNone = -1, kSeveral = -2;

  /// The only axis that the expression depends on.
  int axis_of(const Expr& e) const {
    if (e.as<IntImmNode>()) return kNone;
    if (const auto* var = e.as<VarNode>()) {
      const auto found = std::ranges::find(vars_, var);
      return found == vars_.end() ? kSeveral : static_cast<int>(found - vars_.begin());
    }
    const auto* binary = e.as<BinaryNode>();
    if (binary == nullptr) return kSeveral;
    const int a = axis_of(binary->a), b = axis_of(binary->b);
    if (a == kNone || a == b) return b;
    return b == kNone ? a : kSeveral;
  }

  static std::optional<int64_t> value_at(const Expr& e, int64_t position) {
    if (const auto* imm = e.as<IntImmNode>()) return imm->value;
    if (e.as<VarNode>()) return position;
    const auto* binary = e.as<BinaryNode>();
    const auto a = value_at(binary->a, position), b = value_at(binary->b, position);
    return a && b ? fold_integers(binary->op, DType::kI64, *a, *b) : std::nullopt;
  }

  bool add_table(const Expr& e, int64_t factor) {
    const int axis = axis_of(e);
    if (axis < 0) return false;
    std::vector<int64_t>& table = offsets_.of_axis[static_cast<size_t>(axis)];
    for (size_t i = 0; i < table.size(); ++i) {
      const auto value = value_at(e, static_cast<int64_t>(i));
      if (!value) return false;
      table[i] += factor * *value;
    }
    return true;
  }

  const std::vector<int64_t>& shape_;
  std::vector<const VarNode*> vars_;
  Offsets offsets_;
};

std::optional<Offsets> separate(const OperationNode& op, const ReadNode& read, const RangeMap& ranges,
                                const Array& source, const std::vector<int64_t>& shape) {
  Separator separator(op, shape);
  for (size_t d = 0; d < read.indices.size(); ++d) {
    if (!separator.add(simplify(read.indices[d], ranges), source.strides[d])) return std::nullopt;
  }
  Offsets offsets = separator.take();
  int64_t least = offsets.base, most = offsets.base;
  for (const auto& table : offsets.of_axis) {
    least += *std::ranges::min_element(table);
    most += *std::ranges::max_element(table);
  }
  if (least < 0 || most >= source.count) return std::nullopt;
  return offsets;
}

bool counts_up(const std::vector<int64_t>& table) {
  for (size_t i = 1; i < table.size(); ++i) {
    if (table[i] != table[i - 1] + 1) return false;
  }
  return table.size() > 1;
}

/// The copy as tiles: the result's last axis, beside it the axis along which the source's elements are
/// neighbours, and all combinations of the others.
class TiledCopy {
 public:
  TiledCopy(const Offsets& offsets, const Array& source, const std::vector<int64_t>& shape, std::byte* out)
      : offsets_(offsets), source_(source.bytes), out_(out), width_(byte_width(source.dtype)) {
    const size_t last = shape.size() - 1;
    size_t along = last;
    for (size_t d = 0; d < last; ++d) {
      if (counts_up(offsets.of_axis[d]) && !counts_up(offsets.of_axis[last])) along = d;
    }
    int64_t stride = 1;
    strides_.resize(shape.size());
    for (size_t d = shape.size(); d-- > 0; stride *= shape[d]) strides_[d] = stride;
    last_ = last;
    along_ = along;
    rows_ = shape[last];
    length_ = along == last ? 1 : shape[along];
    constexpr int64_t kTileBytes = 16 << 10;
    tile_ = std::clamp<int64_t>(kTileBytes / (rows_ * width_), 16, 1024);
    tiles_ = (length_ + tile_ - 1) / tile_;
    for (size_t d = 0; d < last; ++d) {
      if (d == along) continue;
      outer_.push_back(d);
      combinations_ *= shape[d];
    }
    shape_ = shape;
  }

  int64_t count() const { return combinations_ * tiles_; }

  void run(int64_t item) const {
    int64_t rest = item / tiles_, from = offsets_.base, to = 0;
    for (size_t k = outer_.size(); k-- > 0;) {
      const size_t d = outer_[k];
      const int64_t i = rest % shape_[d];
      rest /= shape_[d];
      from += offsets_.of_axis[d][static_cast<size_t>(i)];
      to += i * strides_[d];
    }
    const int64_t first = item % tiles_ * tile_, end = std::min(first + tile_, length_);
    switch (width_) {
      case 1:
        return copy<uint8_t>(from, to, first, end);
      case 2:
        return copy<uint16_t>(from, to, first, end);
      case 4:
        return copy<uint32_t>(from, to, first, end);
      default:
        return copy<uint64_t>(from, to, first, end);
    }
  }

 private:
  template <typename T>
  void copy(int64_t from, int64_t to, int64_t first, int64_t end) const {
    const T* source = reinterpret_cast<const T*>(source_) + from;
    T* out = reinterpret_cast<T*>(out_) + to;
    const std::vector<int64_t>& rows = offsets_.of_axis[last_];
    if (along_ == last_) {
      if (counts_up_) {
        std::memcpy(out, source + rows[0], static_cast<size_t>(rows_) * sizeof(T));
        return;
      }
      for (int64_t j = 0; j < rows_; ++j) out[j] = source[rows[static_cast<size_t>(j)]];
      return;
    }
    const int64_t start = offsets_.of_axis[along_][0], stride = strides_[along_];
    for (int64_t j = 0; j < rows_; ++j) {
      const T* row = source + start + rows[static_cast<size_t>(j)];
      T* column = out + j;
      for (int64_t i = first; i < end; ++i) column[i * stride] = row[i];
    }
  }

  const Offsets& offsets_;
  const std::byte* source_;
  std::byte* out_;
  int width_;
  size_t last_ = 0, along_ = 0;
  int64_t rows_ = 1, length_ = 1, tile_ = 1, tiles_ = 1, combinations_ = 1;
  std::vector<int64_t> shape_, strides_;
  std::vector<size_t> outer_;
  bool counts_up_ = counts_up(offsets_.of_axis.back());
};

void run_all(const TiledCopy& copy, int64_t bytes, int threads) {
  constexpr int64_t kWorthSharing = 1 << 20;
  const int64_t count = copy.count();
  if (bytes < kWorthSharing) threads = 1;
  const auto share = [&](int t) {
    for (int64_t i = count * t / threads; i < count * (t + 1) / threads; ++i) copy.run(i);
  };
  std::vector<std::thread> pool;
  for (int t = 1; t < threads; ++t) pool.emplace_back(share, t);
  share(0);
  for (std::thread& thread : pool) thread.join();
}

}  // namespace

bool copy_elements(const OperationNode& op, const Arrays& arrays, const std::vector<int64_t>& shape,
                   std::byte* out, int threads) {
  if (shape.empty() || op.axes.size() != shape.size()) return false;
  RangeMap ranges;
  for (size_t d = 0; d < shape.size(); ++d) {
    ranges[op.axes[d]->var.as<VarNode>()] = {int_imm(DType::kI64, 0), int_imm(DType::kI64, shape[d])};
  }
  // Guards of padding that is not there are gone after this.
  const Expr body = op.body.as<ReduceNode>() ? op.body : simplify(op.body, ranges);
  const auto* read = body.as<ReadNode>();
  if (read == nullptr) return false;
  const Array& source = arrays.at({read->op.get(), read->result});
  if (op.result_dtypes[0] != source.dtype) return false;
  int64_t bytes = byte_width(source.dtype);
  for (int64_t extent : shape) bytes *= extent;
  const std::optional<Offsets> offsets = separate(op, *read, ranges, source, shape);
  if (!offsets) return false;
  run_all(TiledCopy(*offsets, source, shape, out), bytes, std::max(threads, 1));
  return true;
}

}  // namespace gantry::interpreter
