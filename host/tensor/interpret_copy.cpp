#include "host/tensor/interpret_copy.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>

#include "host/support/start_thread.h"
#include "host/tensor/interpret_offsets.h"
#include "host/tensor/simplify.h"

namespace gantry::interpreter {
namespace {

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
  int started = 1;
  while (started < threads && start_thread(pool, share, started)) ++started;
  share(0);
  for (int t = started; t < threads; ++t) share(t);
  for (std::thread& thread : pool) thread.join();
}

}  // namespace

bool copy_elements(const OperationNode& op, const Arrays& arrays, const std::vector<int64_t>& shape,
                   std::byte* out, int threads) {
  if (shape.empty() || op.axes.size() != shape.size()) return false;
  const RangeMap ranges = ranges_of(op, shape);
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
