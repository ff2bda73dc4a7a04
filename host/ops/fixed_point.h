// Weights of matrix products as integers of few bits, for products that wait for their weights to arrive from
// memory.
//
// The depth is cut into chunks; each column of a chunk has a `range`, the smallest that none of its weights
// exceeds. A weight's integer of b bits, times 2^(32-b), is the weight times 2^31 by its range:
//
//   w = range * 2^-31 * word
//   |error of w| <= range * 2^-b <= max |w of column and chunk| * 2^-b * (1 + 2^-17)
//
// (for ranges that are no denormal numbers), so that with b = 24 it is that of f32 for the largest weight.
// Integers are stored in words of 32 bits, as many as can share whole words: the first of these are the upper
// bits of a word each, the others are cut into what the words have left.
//
//   24 bits: 4 in 3 words      a a a d   b b b d   c c c d            a letter is 8 bits
//   20 bits: 8 in 5 words      aaaaafff  bbbbbffg  cccccggg  dddddghh  eeeeehhh     a letter is 4 bits
//
// Loading takes whole vectors of words; what shares a word are columns far apart, so that no lanes change
// places.
#pragma once

#include <optional>
#include <vector>

#include "host/graph/graph.h"
#include "host/tensor/tensor.h"

namespace gantry {

class SpillFile;  // host/support/spill_file.h

/// How integers of `bits` bits (20 or 24) lie in words.
struct FixedPointFormat {
  /// Part of an integer that has no word of its own: `count` bits.
  struct Piece {
    int word;
    int position;  ///< of its lowest bit in the word
    int field;     ///< of its lowest bit in an integer that is shifted up to bit 31
    int count;
  };

  explicit FixedPointFormat(int64_t bits);

  int bits;
  int group;                               ///< integers that share words
  int words;                               ///< they take so many
  std::vector<std::vector<Piece>> shared;  ///< of the integers words … group - 1
};

/// The column's weight times 2^31 / range, as an i32 expression: of a block of `block` columns number `unit`,
/// at depth `k`. `words`: as FixedPointWeight.
Expr fixed_point_word(const Tensor& words, const FixedPointFormat& format, int64_t block, const Expr& panel,
                      const Expr& k, const Expr& unit);

/// Depth of a chunk: a divisor of the whole depth that is small, so that few weights share a range and sums
/// are short, but large beside the ranges' traffic; the whole depth if it has none such.
int64_t fixed_point_chunk(int64_t depth);

struct FixedPointWeight {
  ConstantPtr words;   ///< i32 (panels, K, block * bits / 32); of columns beyond the last, 0
  ConstantPtr ranges;  ///< f32 (panels, K / fixed_point_chunk(K), block)
};

/// f32 weights (K, units) in blocks of `block` columns, a multiple of the format's group. Nothing if integers
/// would make a product less exact than max_fixed_point_error() allows, or a weight is not finite. `spill`:
/// where the words are put together part by part, unless they are few; null: they are made in memory.
std::optional<FixedPointWeight> to_fixed_point(const ConstantData& weight, int64_t bits, int64_t block,
                                               SpillFile* spill = nullptr);

/// Bound of the relative error, in the mean square, that a column's weights may have as integers: that of its
/// products with independent data, too. By uniformly distributed roundings of step range * 2^(1-b) it is
///   sqrt(sum of step^2 / 12 over weights that are not 0) / sqrt(sum of w^2).
/// 24 bits: 2^-20, what f32 sums of a thousand products lose. 20 bits: 2^-18, less than what weights of two
/// bf16 parts lose (host/ops/tiles.h). Normally distributed weights have 2^-23.3 and 2^-19.3.
double max_fixed_point_error(int64_t bits);

}  // namespace gantry
