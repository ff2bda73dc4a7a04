// Attributes of resize: interpolation to given sizes.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "host/graph/attrs.h"
#include "host/graph/op_handle.h"

namespace gantry {

enum class ResizeMode : uint8_t { kNearest, kLinear, kCubic };
/// How a result coordinate maps to the input, as ONNX names them.
enum class ResizeCoordinates : uint8_t {
  kHalfPixel,
  kHalfPixelSymmetric,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric,
  kTfCropAndResize,
  kTfHalfPixelForNn,
};
/// Of positions between elements, to the nearest.
enum class ResizeRounding : uint8_t {
  kRoundPreferFloor,
  kRoundPreferCeil,
  kFloor,
  kCeil,
  kSimple,  ///< up along an axis that shrinks, else down: Resize of ONNX's operator set 10
};

/// A scale as a quotient of integers.
struct ScaleFraction {
  int64_t numerator = 1, denominator = 1;
  double value() const { return static_cast<double>(numerator) / static_cast<double>(denominator); }
};

/// Of the fractions whose denominator is at most 1024, the one of the least that is `scale` once it is
/// rounded to Float; nothing where there is none.
template <typename Float>
std::optional<ScaleFraction> fraction_of(Float scale) {
  constexpr int64_t kMostParts = 1024;
  if (!(scale > 0 && scale < 1e9)) return std::nullopt;
  for (int64_t parts = 1; parts <= kMostParts; ++parts) {
    const double nearest = static_cast<double>(scale) * static_cast<double>(parts);
    const ScaleFraction fraction{std::llround(nearest), parts};
    if (fraction.numerator > 0 && static_cast<Float>(fraction.value()) == scale) return fraction;
  }
  return std::nullopt;
}

/// resize(data, scales?, roi?): where only the running model knows them, the scales of axes whose scale is 0,
/// f64[rank], and the region of interest, f64[2 * rank]; sizes follow from them (bind_dims).
struct ResizeAttrs : AttrsOf<ResizeAttrs> {
  Shape sizes;                 ///< of the result, an entry an axis; axes of equal size are copied
  std::vector<double> scales;  ///< an entry an axis; 0: of the input `scales`, or sizes[i] / data's
  std::vector<double> roi;     ///< starts, then ends, normalised; tf_crop_and_resize only
  ResizeMode mode = ResizeMode::kNearest;
  ResizeCoordinates coordinates = ResizeCoordinates::kHalfPixel;
  ResizeRounding rounding = ResizeRounding::kRoundPreferFloor;
  double cubic_a = -0.75;
  bool exclude_outside = false;
  bool antialias = false;  ///< linear and cubic kernels are as wide as an element of the result where an axis shrinks
  double extrapolation = 0;
  /// With antialiasing, of axes whose scale only the running model knows: as many elements of the data at
  /// each side of a position as the kernel reaches, or more; an entry an axis, or none.
  Shape reaches;
  void fields(AttrVisitor& visit) override;
};

namespace op {
inline constexpr Op<ResizeAttrs> resize{"resize"};
}  // namespace op

}  // namespace gantry
