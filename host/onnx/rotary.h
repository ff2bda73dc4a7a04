// Rotary position embeddings: pairs of features turn by an angle that depends on the position.
#pragma once

#include "host/onnx/term.h"

namespace gantry {

struct Rotation {
  Term cosine, sine;         ///< (B, L, size / 2), or (L, size / 2) for all sequences
  bool interleaved = false;  ///< pairs are neighbours, else a feature of the first half and one of the second
  int64_t size = 0;          ///< features that turn, the first of each head; 0: all
};

/// Input `cosines` and the sines behind it should be tables, (positions, pairs); others are a user error.
void expect_tables(NodeImport& n, size_t cosines);

/// x (B, …, …, D) with sequences along `length_axis` and features along `feature_axis`, the last; the
/// remaining axis is that of heads. Cosines or sines of another rank than 2 or 3 are a user error.
Term rotated(const Term& x, const Rotation& rotation, int64_t length_axis, int64_t feature_axis);

}  // namespace gantry
