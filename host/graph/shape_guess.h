// What extents are taken to be that are not known when a model is compiled: for choices that are right whatever they
// come to, and good for what they usually are. Everything that chooses asks here, so that no two choices for one
// kernel suppose different sizes.
//
// A guess is wrong in two ways: too small, and large runs pay for a plan that does not scale; too large, and small
// ones pay for a plan that never fills. Each value below is the one for which the more common of the two costs little.
#pragma once

#include <cstdint>
#include <optional>

#include "host/graph/type.h"

namespace gantry::guess {

/// What an extent measures.
enum class Extent : uint8_t {
  /// Images or samples that a model takes at once: 1. A device that waits for its answer runs one; with more, the
  /// same kernel has more rows, which cost it nothing.
  kBatch,
  /// Sequences whose states a recurrence keeps in registers together: 4. One kernel that takes four reads the weights
  /// once for all of them, and loses little where there is one; one for one reads them four times for four.
  kSequences,
  /// Products of matrices that do not share operands (heads): 12, as many as the smaller transformers have.
  kProducts,
  /// Channels of an image: 64, where the first layers of networks end and the later ones are multiples of it.
  kChannels,
  /// Rows or columns of an image as the model gets it: 224, for which classifiers are trained; what later layers have
  /// of it follows by their expressions.
  kSide,
  /// Rows of a matrix product, or elements of a sequence: 128, tokens of a sentence. It is enough for tiles of any
  /// height, and few enough that reading the weights still counts.
  kRows,
  /// Terms of the sums of a matrix product: 256, a head's or a small layer's features; sums of more only repeat what
  /// these do.
  kDepth,
  /// Columns of a matrix product: 256, for the same reason.
  kColumns,
  /// Elements that a row of a softmax or normalisation on a GPU has: 2048. Threads without an element wait; an
  /// element more for each thread takes as long again.
  kReduced,
  /// A symbol of which nothing is known: 64, above what is 1 in practice and below what is long. For sizes that are
  /// only compared with each other.
  kSymbol,
};

constexpr int64_t value(Extent measures) {
  switch (measures) {
    case Extent::kBatch:
      return 1;
    case Extent::kSequences:
      return 4;
    case Extent::kProducts:
      return 12;
    case Extent::kChannels:
    case Extent::kSymbol:
      return 64;
    case Extent::kSide:
      return 224;
    case Extent::kRows:
      return 128;
    case Extent::kDepth:
    case Extent::kColumns:
      return 256;
    case Extent::kReduced:
      return 2048;
  }
  return 1;
}

/// Longer than anything that is compared with it, and a multiple of every vector's lanes: for an extent of which only
/// counts whether it is enough.
inline constexpr int64_t kLong = int64_t{1} << 30;

/// The extent where it is known, else the guess.
constexpr int64_t extent(std::optional<int64_t> known, Extent measures) {
  return known.value_or(value(measures));
}
/// A dimension with every symbol in it at the guess, from 1 to that: what a layer has left of an image's side.
int64_t extent(const Dim& dim, Extent measures);
/// Rows of a matrix product of data (…, K): the extents of all axes but the last, of which the first of several is a
/// batch.
int64_t rows(const Shape& data);
/// An expression of several dimensions (bytes, say) where every symbol is `symbol`; `otherwise` where it overflows.
int64_t total(const Dim& dim, int64_t symbol, int64_t otherwise);

}  // namespace gantry::guess
