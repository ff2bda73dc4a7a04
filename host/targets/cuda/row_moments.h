// Mean and variance of rows that do not fit on the chip, from one read of them.
#pragma once

#include <optional>

#include "host/targets/cuda/row_form.h"

namespace gantry::cuda {

/// The two reductions of a normalisation: the sum of some value over each slice, and the sum of the squared
/// deviations from the mean.
struct RowMoments {
  Operation sum, square_sum;
  Expr count;  ///< of a slice's elements, of the sum's type
};
std::optional<RowMoments> find_moments(const RowForm& form);

/// The normalisation as three steps, each a launch:
///
///   chunks   a chunk of a slice a block, kept on the chip: its first element, the sum of differences from
///   that, and
///            the sum of squared deviations from the chunk's own mean
///   moments  those of whole slices, by the parallel formula of Chan, Golub and LeVeque (1979)
///   output   elementwise
///
/// Sums are of differences from the slice's first element, so that a mean far from 0 costs no accuracy.
struct SplitMoments {
  Tensor tile;             ///< (part…, r…, slice…) or (part…, slice…, r…): the chunks' elements
  Tensor sum, square_sum;  ///< (part…, slice…): of a chunk
  Tensor chunks;           ///< (3, part…, slice…): sum, square_sum, first element
  Tensor total, total_square_sum;  ///< (slice…)
  Tensor moments;                  ///< (3, slice…): total, total_square_sum, first element
  Tensor output;
};

struct ChunkShape {
  int64_t elements = 0;           ///< of a slice, at most
  bool slices_innermost = false;  ///< neighbouring slices are neighbours in memory
  int64_t parts = 1;              ///< of a chunk, reduced on their own (kPartialSum), then together (kTotal)
};
SplitMoments split_moments(const RowMoments& moments, const Tensor& output, const ChunkShape& shape);

/// Tags of the stages that must not be inlined or that schedules look for.

}  // namespace gantry::cuda
