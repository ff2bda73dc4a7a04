#include "host/ops/fixed_point.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "host/graph/spilled_constant.h"
#include "host/support/divide.h"
#include "host/support/error.h"
#include "host/support/in_parallel.h"
#include "host/support/spill_file.h"

namespace gantry {
namespace {

constexpr int kWordBits = 32;

/// The value of 2^31, so that the largest weight becomes the largest integer.
float range_of(float largest, int bits) {
  const double exact = double(largest) / (1 - std::ldexp(1.0, 1 - bits));
  const auto range = static_cast<float>(exact);
  return double(range) < exact ? std::nextafter(range, std::numeric_limits<float>::infinity()) : range;
}

/// Nearest integer, for |value| < 2^31: an addition leaves it in the lower bits of the sum.
uint32_t round_to_integer(double value) {
  constexpr double kShift = 0x1.8p52;
  return static_cast<uint32_t>(std::bit_cast<uint64_t>(value + kShift));
}

/// One row of a block: `fields` are its integers, shifted up to bit 31.
void pack_row(const FixedPointFormat& format, int64_t lanes, const uint32_t* fields, uint32_t* words) {
  std::copy_n(fields, format.words * lanes, words);
  for (size_t e = 0; e < format.shared.size(); ++e) {
    const uint32_t* from = fields + (format.words + static_cast<int64_t>(e)) * lanes;
    for (const FixedPointFormat::Piece& piece : format.shared[e]) {
      uint32_t* to = words + piece.word * lanes;
      const uint32_t mask = (uint32_t{1} << piece.count) - 1;
      for (int64_t lane = 0; lane < lanes; ++lane)
        to[lane] |= ((from[lane] >> piece.field) & mask) << piece.position;
    }
  }
}

/// Packs a block of columns, chunk by chunk.
class PanelPacker {
 public:
  PanelPacker(const FixedPointFormat& format, int64_t block) : format_(format), block_(block) {}

  /// A new panel of so many columns; the others of the block are 0.
  void begin(int64_t columns) {
    columns_ = static_cast<size_t>(columns);
    const auto size = static_cast<size_t>(block_);
    fields_.assign(size, 0);
    errors_.assign(size, 0);
    squares_.assign(size, 0);
    finite_ = true;
  }

  /// `depth` rows of f32, `stride` elements apart.
  void pack(const float* weight, int64_t stride, int64_t depth, uint32_t* words, float* ranges) {
    measure(weight, stride, depth);
    for (size_t j = 0; j < static_cast<size_t>(block_); ++j) {
      const float range = j < columns_ ? range_of(largest_[j], format_.bits) : 0.0f;
      finite_ = finite_ && std::isfinite(range);
      const double step = std::ldexp(double(range), 1 - format_.bits);
      ranges[j] = range;
      scale_[j] = step > 0 ? 1 / step : 0.0;
      errors_[j] += j < columns_ ? nonzero_[j] * step * step / 12 : 0.0;
    }
    if (!finite_) return;
    const int64_t lanes = block_ / format_.group;
    for (int64_t k = 0; k < depth; ++k, weight += stride, words += lanes * format_.words) {
      for (size_t j = 0; j < columns_; ++j)
        fields_[j] = round_to_integer(double(weight[j]) * scale_[j]) << (kWordBits - format_.bits);
      pack_row(format_, lanes, fields_.data(), words);
    }
  }

  /// The panel's errors are within the bound.
  bool is_exact() const {
    const double bound = std::pow(max_fixed_point_error(format_.bits), 2);
    for (size_t j = 0; j < columns_; ++j)
      if (!(errors_[j] <= bound * squares_[j])) return false;
    return finite_;
  }

 private:
  void measure(const float* weight, int64_t stride, int64_t depth) {
    const auto size = static_cast<size_t>(block_);
    largest_.assign(size, 0);
    nonzero_.assign(size, 0);
    scale_.resize(size);
    for (int64_t k = 0; k < depth; ++k, weight += stride) {
      for (size_t j = 0; j < columns_; ++j) {
        const float magnitude = std::abs(weight[j]);
        // A NaN may be forgotten here, but not by the sum of squares.
        largest_[j] = magnitude <= largest_[j] ? largest_[j] : magnitude;
        squares_[j] += double(magnitude) * double(magnitude);
        nonzero_[j] += magnitude != 0 ? 1.0f : 0.0f;
      }
    }
  }

  const FixedPointFormat& format_;
  int64_t block_;
  size_t columns_ = 0;
  bool finite_ = true;
  std::vector<uint32_t> fields_;
  std::vector<float> largest_, nonzero_;          ///< of the chunk
  std::vector<double> scale_, errors_, squares_;  ///< the latter two: mean square sums of the panel
};

/// A weight (K, units) as panels of `block` columns.
class WeightPanels {
 public:
  WeightPanels(const ConstantData& weight, const FixedPointFormat& format, int64_t block)
      : weight_(weight.as<float>()),
        format_(format),
        block_(block),
        depth_(weight.type.shape[0].value()),
        units_(weight.type.shape[1].value()),
        chunk_(std::max<int64_t>(fixed_point_chunk(depth_), 1)) {}

  TensorType words_type() const { return {DType::kI32, {ceil_div(units_, block_), depth_, row_words()}}; }
  TensorType ranges_type() const {
    return {DType::kF32, {ceil_div(units_, block_), depth_ / chunk_, block_}};
  }
  /// Bytes of a panel's words.
  size_t panel_bytes() const { return static_cast<size_t>(depth_ * row_words()) * sizeof(uint32_t); }

  /// Whole panels from the `first` on; false where one is not exact enough. `ranges`: of all panels.
  bool pack(int64_t first, std::span<std::byte> words, float* ranges) const {
    std::atomic<bool> exact = true;
    const auto count = panel_bytes() == 0 ? 0 : static_cast<int64_t>(words.size() / panel_bytes());
    in_parallel(count, [&](int64_t begin, int64_t end) {
      PanelPacker packer(format_, block_);
      for (int64_t p = begin; p < end && exact; ++p) {
        auto* to = reinterpret_cast<uint32_t*>(words.data()) + p * depth_ * row_words();
        if (!pack_panel(packer, first + p, to, ranges)) exact = false;
      }
    });
    return exact;
  }

 private:
  int64_t row_words() const { return block_ / format_.group * format_.words; }

  bool pack_panel(PanelPacker& packer, int64_t panel, uint32_t* words, float* ranges) const {
    packer.begin(std::min(block_, units_ - panel * block_));
    const int64_t chunks = depth_ / chunk_;
    for (int64_t c = 0; c < chunks; ++c) {
      packer.pack(weight_ + c * chunk_ * units_ + panel * block_, units_, chunk_,
                  words + c * chunk_ * row_words(), ranges + (panel * chunks + c) * block_);
    }
    return packer.is_exact();
  }

  const float* weight_;
  const FixedPointFormat& format_;
  int64_t block_, depth_, units_, chunk_;
};

/// `pack` is asked for the words of panels, from the first one's number on.
ConstantPtr packed_words(const WeightPanels& panels,
                         const std::function<void(int64_t first, std::span<std::byte> words)>& pack,
                         SpillFile* spill) {
  constexpr size_t kPart = size_t{32} << 20;  // panels enough for many threads
  const TensorType type = panels.words_type();
  const auto size = static_cast<size_t>(type.byte_size().value());
  if (spill != nullptr && size >= kLeastSpilled) {
    const size_t panel = panels.panel_bytes();
    auto kept = spill->keep(size, std::max<size_t>(1, kPart / panel) * panel,
                            [&](size_t offset, std::span<std::byte> words) {
                              pack(static_cast<int64_t>(offset / panel), words);
                            });
    if (kept != nullptr) return constant_over(type, std::move(kept));
  }
  std::byte* words = nullptr;
  auto constant = allocate_constant(type, &words);
  pack(0, {words, size});
  return constant;
}

Expr masked(Expr word, uint32_t mask) {
  return binary(BinaryOp::kAnd, std::move(word), int_imm(DType::kI32, static_cast<int32_t>(mask)));
}

}  // namespace

FixedPointFormat::FixedPointFormat(int64_t width) : bits(static_cast<int>(width)) {
  internal_check(width == 20 || width == 24, "there are no weights of {} bits", width);
  const int common = std::gcd(bits, kWordBits);
  group = kWordBits / common;
  words = bits / common;
  int word = 0, room = kWordBits - bits;
  for (int e = words; e < group; ++e) {
    std::vector<Piece>& pieces = shared.emplace_back();
    for (int left = bits; left > 0;) {
      // From the upper end of the word's room on: the first piece of an integer then lies at the word's lower
      // end, from where a shift alone brings it to the top.
      const int count = std::min(left, room);
      left -= count;
      room -= count;
      pieces.push_back({word, room, kWordBits - bits + left, count});
      if (room > 0) continue;
      ++word;
      room = kWordBits - bits;
    }
  }
}

Expr fixed_point_word(const Tensor& words, const FixedPointFormat& format, int64_t block, const Expr& panel,
                      const Expr& k, const Expr& unit) {
  const int64_t lanes = block / format.group;
  const Expr slot = floordiv(unit, lanes), lane = mod(unit, lanes);
  auto word = [&](const Expr& number) { return words({panel, k, number * lanes + lane}); };
  const int rest = kWordBits - format.bits;
  Expr value = masked(word(min(slot, Expr(format.words - 1))), ~uint32_t{0} << rest);
  for (size_t e = 0; e < format.shared.size(); ++e) {
    Expr whole;
    for (const FixedPointFormat::Piece& piece : format.shared[e]) {
      Expr part =
          binary(BinaryOp::kShl, word(Expr(piece.word)), int_imm(DType::kI32, piece.field - piece.position));
      const bool is_top = piece.field + piece.count == kWordBits;
      if (!is_top) part = masked(part, ((uint32_t{1} << piece.count) - 1) << piece.field);
      whole = whole ? binary(BinaryOp::kOr, whole, part) : part;
    }
    value = select(eq(slot, Expr(format.words + static_cast<int>(e))), whole, value);
  }
  return value;
}

int64_t fixed_point_chunk(int64_t depth) {
  constexpr int64_t kLeast = 64, kMost = 256;
  for (int64_t chunk = kMost; chunk >= kLeast; --chunk)
    if (depth % chunk == 0) return chunk;
  return depth;
}

std::optional<FixedPointWeight> to_fixed_point(const ConstantData& weight, int64_t bits, int64_t block,
                                               SpillFile* spill) {
  const FixedPointFormat format(bits);
  internal_check(block % format.group == 0, "blocks of {} columns share no whole words", block);
  const WeightPanels panels(weight, format, block);
  std::byte* ranges = nullptr;
  FixedPointWeight packed{.ranges = allocate_constant(panels.ranges_type(), &ranges)};
  bool exact = true;
  const auto pack = [&](int64_t first, std::span<std::byte> words) {
    exact = exact && panels.pack(first, words, reinterpret_cast<float*>(ranges));
  };
  packed.words = packed_words(panels, pack, spill);
  if (!exact) return std::nullopt;
  return packed;
}

double max_fixed_point_error(int64_t bits) {
  return bits >= 24 ? 0x1p-20 : 0x1p-18;
}

}  // namespace gantry
