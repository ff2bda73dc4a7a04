// Images of 8 bits a channel, as files hold them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gantry::cli {

/// Rows from top to bottom, channels interleaved: grey, or red, green, blue; another order is its maker's.
struct Image {
  int width = 0, height = 0;
  int channels = 0;  ///< 1 or 3
  std::vector<uint8_t> pixels;

  size_t row_bytes() const { return static_cast<size_t>(width) * static_cast<size_t>(channels); }
  const uint8_t* row(int y) const { return pixels.data() + row_bytes() * static_cast<size_t>(y); }
  uint8_t* row(int y) { return pixels.data() + row_bytes() * static_cast<size_t>(y); }
};

/// Largest side and number of pixels of an image, decoded or resized: its three channels take 400 MB.
constexpr int kLongestSide = 65535;
constexpr int64_t kMostPixels = int64_t{1} << 27;

/// User error, which says `name` and the sides, unless they are within these bounds.
void check_sides(int64_t width, int64_t height, const std::string& name);
/// A black image, its sides checked before its pixels are reserved.
Image new_image(int64_t width, int64_t height, int channels, const std::string& name);

/// Whether a file begins as one of an image does, by its first 12 bytes, or all if it has less.
bool begins_as_image(std::span<const std::byte> bytes);
/// Red, green and blue of an image in any of the formats that ImageDecoder has
/// (device_runtime/builtins/images.h), to the pixels that models with it get. User errors name the file and
/// say what is wrong with it, or which library gantry was built without.
Image decode_image(std::span<const std::byte> bytes, const std::string& name);

/// Of red, green and blue, ITU-R BT.601's luma in 16-bit fixed point, as Pillow's convert("L"): 0.299 R +
/// 0.587 G + 0.114 B.
Image to_gray(const Image& image);

}  // namespace gantry::cli
