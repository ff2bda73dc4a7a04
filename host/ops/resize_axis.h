// One axis of resize: where positions of the result lie in the data, and which elements they read.
#pragma once

#include <optional>
#include <vector>

#include "host/ops/resize.h"
#include "host/tensor/tensor.h"

namespace gantry::resizing {

inline constexpr DType kCoordinate = DType::kF64;  // f32 would misplace ties of large images

Expr coordinate(double value);
Expr coordinate(const Dim& d);
Expr floor_of(Expr x);

/// One axis of the interpolation.
struct Axis {
  const ResizeAttrs& attrs;
  Dim in, out;
  double given_scale = 0;
  double roi_start = 0, roi_end = 1;
  Expr scale_data, start_data, end_data;  ///< what only the running model knows; null where it is not so

  bool scale_is_data() const { return scale_data.get() != nullptr && given_scale == 0; }
  bool crops() const { return attrs.coordinates == ResizeCoordinates::kTfCropAndResize; }
  /// Every position reads the one of the same number.
  bool copied() const;
  std::optional<double> known_scale() const;
  Expr scale() const;
  /// x / scale: exact where that is a whole number or a half, of a scale that is a small fraction or that of
  /// two extents. Nearest neighbours hang on it.
  Expr unscaled(const Expr& x) const;
  /// scale * in, of which `out` is the whole part, where a scale is given; else `out`.
  Expr length() const;
  bool antialiased() const;
};

/// Where position i of the result lies in the input.
Expr source_coordinate(const Axis& axis, const Expr& i);

/// A weighted element of the input; a null weight is 1.
struct Tap {
  Expr position, weight;
};

/// The position, or that at the end of the axis which is nearest to it.
Expr clamped(Expr position, const Dim& extent);
/// The one element of nearest interpolation.
std::vector<Tap> nearest_taps(const Axis& axis, const Expr& i);
/// Two elements of linear interpolation, four of cubic.
std::vector<Tap> weighted_taps(const Axis& axis, const Expr& i);

}  // namespace gantry::resizing
