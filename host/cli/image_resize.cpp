#include "host/cli/image_resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "host/support/error.h"

namespace gantry::cli {
namespace {

constexpr int kWeightBits = 22;  // 8 of a pixel and 2 to spare (negative weights, sums above 255) make 32

/// What one output pixel takes of the input.
struct Taps {
  int first = 0;
  std::vector<int32_t> weights;
};

double triangle(double x) {
  return std::max(0.0, 1 - std::fabs(x));
}

/// R. Keys, Cubic Convolution Interpolation for Digital Image Processing, 1981; `a` is the slope at 1.
double cubic(double x, double a) {
  x = std::fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

double weight_at(double distance, Interpolation interpolation, bool antialias) {
  constexpr double kSlopeOfPillow = -0.5, kSlopeOfOpenCv = -0.75;
  if (interpolation != Interpolation::kBicubic) return triangle(distance);
  return cubic(distance, antialias ? kSlopeOfPillow : kSlopeOfOpenCv);
}

std::vector<Taps> taps_of(int from, int to, Interpolation interpolation, bool antialias) {
  const double scale = static_cast<double>(from) / to;
  const double width = antialias ? std::max(1.0, scale) : 1.0;  // of the filter, in input pixels
  const double reach = width * (interpolation == Interpolation::kBicubic ? 2 : 1);
  std::vector<Taps> all(static_cast<size_t>(to));
  std::vector<double> weights;
  for (int x = 0; x < to; ++x) {
    const double centre = (x + 0.5) * scale;
    const int begin = static_cast<int>(std::floor(centre - reach + 0.5));
    const int end = static_cast<int>(std::floor(centre + reach + 0.5));
    Taps& taps = all[static_cast<size_t>(x)];
    taps.first = std::max(0, begin);
    weights.assign(static_cast<size_t>(std::min(from, end) - taps.first), 0.0);
    double sum = 0;
    for (int i = begin; i < end; ++i) {
      const int inside = std::clamp(i, 0, from - 1);
      if (antialias && inside != i) continue;  // Pillow leaves out what OpenCV takes from the edge
      const double weight = weight_at((i - centre + 0.5) * (1 / width), interpolation, antialias);
      weights[static_cast<size_t>(inside - taps.first)] += weight;
      sum += weight;
    }
    for (const double weight : weights) {
      const double share = sum == 0 ? weight : weight / sum;
      taps.weights.push_back(static_cast<int32_t>(share * (1 << kWeightBits) + (share < 0 ? -0.5 : 0.5)));
    }
  }
  return all;
}

uint8_t rounded(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

Image resize_rows(const Image& image, int width, const std::vector<Taps>& taps, const std::string& name) {
  Image result = new_image(width, image.height, image.channels, name);
  const int channels = image.channels;
  for (int y = 0; y < image.height; ++y) {
    const uint8_t* source = image.row(y);
    uint8_t* target = result.row(y);
    for (const Taps& tap : taps) {
      for (int c = 0; c < channels; ++c) {
        const uint8_t* at = source + tap.first * channels + c;
        int32_t sum = 1 << (kWeightBits - 1);
        for (const int32_t weight : tap.weights) {
          sum += *at * weight;
          at += channels;
        }
        *target++ = rounded(sum);
      }
    }
  }
  return result;
}

Image resize_columns(const Image& image, int height, const std::vector<Taps>& taps, const std::string& name) {
  Image result = new_image(image.width, height, image.channels, name);
  std::vector<int32_t> sums(image.row_bytes());
  for (int y = 0; y < height; ++y) {
    const Taps& tap = taps[static_cast<size_t>(y)];
    std::ranges::fill(sums, 1 << (kWeightBits - 1));
    for (size_t i = 0; i < tap.weights.size(); ++i) {
      const uint8_t* source = image.row(tap.first + static_cast<int>(i));
      for (size_t x = 0; x < sums.size(); ++x) sums[x] += source[x] * tap.weights[i];
    }
    std::ranges::transform(sums, result.row(y), rounded);
  }
  return result;
}

Image resize_nearest(const Image& image, int width, int height, const std::string& name) {
  Image result = new_image(width, height, image.channels, name);
  const double across = static_cast<double>(image.width) / width;
  const double down = static_cast<double>(image.height) / height;
  const auto channels = static_cast<size_t>(image.channels);
  for (int y = 0; y < height; ++y) {
    const uint8_t* source = image.row(std::min(image.height - 1, static_cast<int>((y + 0.5) * down)));
    uint8_t* target = result.row(y);
    for (int x = 0; x < width; ++x, target += channels) {
      const int from = std::min(image.width - 1, static_cast<int>((x + 0.5) * across));
      std::memcpy(target, source + static_cast<size_t>(from) * channels, channels);
    }
  }
  return result;
}

}  // namespace

Image resize(const Image& image, int width, int height, Interpolation interpolation, bool antialias,
             const std::string& name) {
  internal_check(image.width > 0 && image.height > 0, "an image without pixels");
  check_sides(width, height, name);
  if (image.width == width && image.height == height) return image;
  if (interpolation == Interpolation::kNearest) return resize_nearest(image, width, height, name);
  Image result = image;
  if (width != image.width) {
    result = resize_rows(result, width, taps_of(image.width, width, interpolation, antialias), name);
  }
  if (height != image.height) {
    result = resize_columns(result, height, taps_of(image.height, height, interpolation, antialias), name);
  }
  return result;
}

Image crop(const Image& image, int left, int top, int width, int height) {
  internal_check(left >= 0 && top >= 0 && left + width <= image.width && top + height <= image.height,
                 "a crop outside its image");
  Image result = new_image(width, height, image.channels, "crop");
  const auto channels = static_cast<size_t>(image.channels);
  for (int y = 0; y < height; ++y) {
    std::memcpy(result.row(y), image.row(top + y) + static_cast<size_t>(left) * channels, result.row_bytes());
  }
  return result;
}

}  // namespace gantry::cli
