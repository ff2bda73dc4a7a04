// Images as files hold them, decoded to 8 bits a channel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gantry::cli {

/// Rows from top to bottom, channels interleaved: grey, or red, green, blue.
struct Image {
  int width = 0, height = 0;
  int channels = 0;  ///< 1 or 3
  std::vector<uint8_t> pixels;

  size_t row_bytes() const { return static_cast<size_t>(width) * static_cast<size_t>(channels); }
  const uint8_t* row(int y) const { return pixels.data() + row_bytes() * static_cast<size_t>(y); }
  uint8_t* row(int y) { return pixels.data() + row_bytes() * static_cast<size_t>(y); }
};

/// Largest side and number of pixels of an image, decoded or resized: its three channels take 400 MB.
constexpr int kLongestSide = 65500;
constexpr int64_t kMostPixels = int64_t{1} << 27;

/// User error, which says `name` and the sides, unless they are within these bounds.
void check_sides(int64_t width, int64_t height, const std::string& name);
/// A black image, its sides checked before its pixels are reserved.
Image new_image(int64_t width, int64_t height, int channels, const std::string& name);

/// Decoders. All leave out transparency, EXIF's orientation and colour profiles, as Pillow's Image.open and
/// convert("RGB") do, and take the upper byte of 16-bit channels. User errors name the file and say what is
/// wrong with it.
Image decode_png(std::span<const std::byte> bytes, const std::string& name);
/// Grey or colour, not CMYK; the exact inverse transform and smooth upsampling of libjpeg.
Image decode_jpeg(std::span<const std::byte> bytes, const std::string& name);
/// Binary PPM and PGM (P6, P5) with at most 255 for the brightest.
Image decode_pnm(std::span<const std::byte> bytes, const std::string& name);

/// Red, green and blue from grey.
Image to_rgb(Image image);
/// ITU-R BT.601's luma in 16-bit fixed point, as Pillow's convert("L"): 0.299 R + 0.587 G + 0.114 B.
Image to_gray(Image image);

}  // namespace gantry::cli
