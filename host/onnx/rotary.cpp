#include "host/onnx/rotary.h"

namespace gantry {
namespace {

/// Cosines or sines beside data: (B, L, half) or (L, half) with an axis of heads. Those of another rank are a
/// user error.
Term beside_heads(const Term& angles, int64_t length_axis) {
  if (angles.rank() != 2 && angles.rank() != 3)
    angles.node().fail("its cosines or sines of each position, {}, should have 2 or 3 dimensions",
                       to_string(angles.shape()));
  const Shape& shape = angles.shape();
  const Dim batch = angles.rank() == 3 ? shape[0] : Dim(1);
  const Dim length = shape[shape.size() - 2], half = shape.back();
  return angles.reshaped(length_axis == 1 ? Shape{batch, length, 1, half} : Shape{batch, 1, length, half});
}

}  // namespace

void expect_tables(NodeImport& n, size_t cosines) {
  if (n.rank(cosines) != 2 || n.rank(cosines + 1) != 2)
    n.fail("its cosines {} and sines {} should have 2 dimensions", n.type(cosines).str(),
           n.type(cosines + 1).str());
}

Term rotated(const Term& x, const Rotation& rotation, int64_t length_axis, int64_t feature_axis) {
  const Dim all = x.dim(feature_axis);
  const Dim size = rotation.size > 0 ? Dim(rotation.size) : all;
  const Dim half = floordiv(size, 2);
  const Term cosine = beside_heads(rotation.cosine, length_axis),
             sine = beside_heads(rotation.sine, length_axis);
  if (provably_different(cosine.dim(-1), half))
    x.node().fail("its cosines are of {} pairs, but {} features turn", cosine.dim(-1).str(), size.str());
  const Term turning = x.sliced(feature_axis, 0, size);
  const bool pairs = rotation.interleaved;
  const Term a = pairs ? turning.strided(feature_axis, 0, size, 2) : turning.sliced(feature_axis, 0, half);
  const Term b = pairs ? turning.strided(feature_axis, 1, size, 2) : turning.sliced(feature_axis, half, size);
  const Term real = a * cosine - b * sine, imaginary = a * sine + b * cosine;
  Term turned =
      pairs ? concatenated({real.unsqueezed(-1), imaginary.unsqueezed(-1)}, -1).reshaped(turning.shape())
            : concatenated({real, imaginary}, feature_axis);
  if (size == all) return turned;
  return concatenated({turned, x.sliced(feature_axis, size, all)}, feature_axis);
}

}  // namespace gantry
