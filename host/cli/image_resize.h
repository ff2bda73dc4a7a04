// Images of another size.
#pragma once

#include <string>

#include "host/cli/image.h"

namespace gantry::cli {

enum class Interpolation { kNearest, kBilinear, kBicubic };

/// Pillow's Image.resize (of 9.4: rows first), bit by bit: a triangle or a cubic (Keys, a = -0.5) around each
/// output pixel's centre, widened by the ratio of the sizes when it shrinks; weights of 22 bits that are
/// normalised where the edge cuts them, rows first, each of the two passes rounded to 8 bits. Without
/// `antialias`, OpenCV's resize up to its rounding: 2 neighbours or 4 (the cubic with a = -0.75) always,
/// those beyond the edge being the pixel at it. Nearest takes the pixel that holds the centre. User error,
/// which mentions `name`, for sides out of bounds.
Image resize(const Image& image, int width, int height, Interpolation interpolation, bool antialias,
             const std::string& name);

/// The rectangle at (left, top), all inside the image.
Image crop(const Image& image, int left, int top, int width, int height);

}  // namespace gantry::cli
