// Images as files hold them, decoded to red, green and blue of 8 bits. A decoder leaves out transparency,
// EXIF's orientation and colour profiles, as Pillow's Image.open and convert("RGB") do, and takes the upper
// byte of 16-bit channels; of PNM, whose brightest value is any, samples are scaled and rounded.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "device_runtime/src/status.h"

namespace gantry::runtime {

using ImageBytes = std::span<const uint8_t>;

/// Largest side and number of pixels of an image: its three channels take 400 MB.
inline constexpr uint64_t kLongestImageSide = 65535;
inline constexpr uint64_t kMostImagePixels = uint64_t{1} << 27;

struct ImageSize {
  uint32_t width = 0, height = 0;
  bool operator==(const ImageSize&) const = default;
};

/// Where a decoder puts pixels: rows from top to bottom, channels interleaved, nothing between rows.
struct RgbImage {
  ImageSize size;
  uint8_t* pixels = nullptr;  ///< 3 * width * height bytes

  uint8_t* row(uint32_t y) const { return pixels + size_t{3} * size.width * y; }
  uint64_t bytes() const { return uint64_t{3} * size.width * size.height; }
};

// The formats, each in its file. Sizes are what headers say, within the bounds above. A decoder writes pixels
// of an image of that size alone. Both INVALID_ARGUMENT where the bytes are not what the format has, or have
// what is not decoded; OUT_OF_MEMORY.
Result<ImageSize> bmp_size(ImageBytes bytes);
Status decode_bmp(ImageBytes bytes, const RgbImage& image);
Result<ImageSize> pnm_size(ImageBytes bytes);
Status decode_pnm(ImageBytes bytes, const RgbImage& image);
Result<ImageSize> tiff_size(ImageBytes bytes);
Status decode_tiff(ImageBytes bytes, const RgbImage& image);
Result<ImageSize> jpeg_size(ImageBytes bytes);
Status decode_jpeg(ImageBytes bytes, const RgbImage& image);
Result<ImageSize> png_size(ImageBytes bytes);
Status decode_png(ImageBytes bytes, const RgbImage& image);
Result<ImageSize> webp_size(ImageBytes bytes);
Status decode_webp(ImageBytes bytes, const RgbImage& image);

// Of any of them: what the bytes begin as, decides. Errors beside those of the formats: INVALID_ARGUMENT
// where that is none that is known, INCOMPATIBLE, which names the library, where this program was built
// without it.
/// By the first 12 bytes, or all if there are less; of the formats that are decoded elsewhere, too.
bool begins_as_image(ImageBytes bytes);
Result<ImageSize> any_image_size(ImageBytes bytes);
/// `image`: of the size that any_image_size() says of the same bytes.
Status decode_any_image(ImageBytes bytes, const RgbImage& image);

// --- what formats share
/// INVALID_ARGUMENT: "the image cannot be decoded as FORMAT: WHY"
Status bad_image(const char* format, const char* why);
/// The size, or INVALID_ARGUMENT where it is out of bounds.
Result<ImageSize> image_size(const char* format, uint64_t width, uint64_t height);
/// Memory of that many bytes; null: there is none.
std::unique_ptr<uint8_t[]> image_memory(uint64_t bytes);
Status no_image_memory(const char* format, uint64_t bytes);

}  // namespace gantry::runtime
