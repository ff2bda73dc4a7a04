// The builtins of ImageDecoder: which format bytes are of, how large the image is, and its pixels.
#include <algorithm>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "device_runtime/builtins/functions.h"
#include "device_runtime/builtins/images.h"

namespace gantry::runtime {
namespace {

constexpr auto kU8 = ElementType::kU8, kI64 = ElementType::kI64;

/// The functions are null where the program was built without the library.
struct Format {
  const char* name;
  const char* library;  ///< Debian's package of it; null: gantry's own code
  bool (*is_of)(std::string_view bytes);
  Result<ImageSize> (*size)(ImageBytes);
  Status (*decode)(ImageBytes, const RgbImage&);
};

bool is_tiff(std::string_view bytes) {
  return bytes.starts_with(std::string_view("II*\0", 4)) || bytes.starts_with(std::string_view("MM\0*", 4));
}
bool is_webp(std::string_view bytes) {
  return bytes.starts_with("RIFF") && bytes.size() >= 12 && bytes.substr(8, 4) == "WEBP";
}
bool is_jpeg_2000(std::string_view bytes) {
  return bytes.starts_with(std::string_view("\0\0\0\x0cjP  ", 8)) || bytes.starts_with("\xff\x4f\xff\x51");
}

constexpr Format kFormats[] = {
    {"BMP", nullptr, [](std::string_view b) { return b.starts_with("BM"); }, bmp_size, decode_bmp},
    {"PNM", nullptr,
     [](std::string_view b) { return b.size() >= 2 && b[0] == 'P' && b[1] >= '1' && b[1] <= '6'; }, pnm_size,
     decode_pnm},
    {"TIFF", nullptr, is_tiff, tiff_size, decode_tiff},
#ifdef GANTRY_WITH_JPEG
    {"JPEG", nullptr, [](std::string_view b) { return b.starts_with("\xff\xd8\xff"); }, jpeg_size,
     decode_jpeg},
#else
    {"JPEG", "libturbojpeg0-dev", [](std::string_view b) { return b.starts_with("\xff\xd8\xff"); }, nullptr,
     nullptr},
#endif
#ifdef GANTRY_WITH_PNG
    {"PNG", nullptr, [](std::string_view b) { return b.starts_with("\x89PNG\r\n\x1a\n"); }, png_size,
     decode_png},
#else
    {"PNG", "libpng-dev", [](std::string_view b) { return b.starts_with("\x89PNG\r\n\x1a\n"); }, nullptr,
     nullptr},
#endif
#ifdef GANTRY_WITH_WEBP
    {"WebP", nullptr, is_webp, webp_size, decode_webp},
#else
    {"WebP", "libwebp-dev", is_webp, nullptr, nullptr},
#endif
};

std::string_view text_of(ImageBytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Null: none that is known.
const Format* known_format(std::string_view text) {
  const Format* found =
      std::find_if(std::begin(kFormats), std::end(kFormats), [&](const Format& f) { return f.is_of(text); });
  return found == std::end(kFormats) ? nullptr : found;
}

/// The format that the bytes begin as; fails where none is known, or it cannot be decoded here.
Status find_format(ImageBytes bytes, const Format** found) {
  const std::string_view text = text_of(bytes);
  *found = known_format(text);
  if (*found == nullptr) {
    return failure(GANTRY_INVALID_ARGUMENT,
                   "the %zu bytes are %s; BMP, PNM, TIFF, JPEG, PNG and WebP are decoded: convert it",
                   bytes.size(),
                   is_jpeg_2000(text) ? "an image in JPEG 2000" : "of no known format of images");
  }
  if ((*found)->decode != nullptr) return Status();
  return failure(
      GANTRY_INCOMPATIBLE,
      "the image is in %s, which this runtime was built without: build gantry where %s is installed, or "
      "convert the image",
      (*found)->name, (*found)->library);
}

ImageBytes bytes_of(const BuiltinTensor& tensor) {
  return {tensor.as<uint8_t>(), static_cast<size_t>(tensor.elements)};
}

enum Pixels : int64_t { kRgb, kBgr, kGray };

void swap_red_and_blue(const RgbImage& image) {
  for (uint8_t *pixel = image.pixels, *end = pixel + image.bytes(); pixel != end; pixel += 3)
    std::swap(pixel[0], pixel[2]);
}

/// ITU-R BT.601's luma in 16-bit fixed point, as Pillow's convert("L"): 0.299 R + 0.587 G + 0.114 B.
void write_gray(const RgbImage& image, uint8_t* gray) {
  for (const uint8_t *pixel = image.pixels, *end = pixel + image.bytes(); pixel != end; pixel += 3)
    *gray++ = static_cast<uint8_t>((19595 * pixel[0] + 38470 * pixel[1] + 7471 * pixel[2] + 0x8000) >> 16);
}

}  // namespace

Status measure_image(const BuiltinCall& call) {
  GANTRY_TRY(check_call(call, {kU8}, {kI64}));
  if (call.outputs[0].elements != 2) return bad_call(call);
  const Result<ImageSize> size = any_image_size(bytes_of(call.inputs[0]));
  if (!size.ok()) return size.status();
  auto* result = call.outputs[0].as<int64_t>();
  result[0] = size.value().height;
  result[1] = size.value().width;
  return Status();
}

Status decode_image(const BuiltinCall& call) {
  GANTRY_TRY(check_call(call, {kU8}, {kU8}, 1));
  const BuiltinTensor& result = call.outputs[0];
  const int64_t pixels = call.integers[0];
  if (pixels < kRgb || pixels > kGray || result.shape.size() != 3 ||
      result.shape[2] != (pixels == kGray ? 1 : 3))
    return bad_call(call);
  const ImageBytes bytes = bytes_of(call.inputs[0]);
  const Format* format = nullptr;
  GANTRY_TRY(find_format(bytes, &format));
  const Result<ImageSize> size = format->size(bytes);
  if (!size.ok()) return size.status();
  if (result.shape[0] != size.value().height || result.shape[1] != size.value().width) return bad_call(call);
  RgbImage image{size.value(), result.as<uint8_t>()};
  if (pixels != kGray) {
    GANTRY_TRY(format->decode(bytes, image));
    if (pixels == kBgr) swap_red_and_blue(image);
    return Status();
  }
  const std::unique_ptr<uint8_t[]> colours = image_memory(image.bytes());
  if (colours == nullptr) return no_image_memory(format->name, image.bytes());
  image.pixels = colours.get();
  GANTRY_TRY(format->decode(bytes, image));
  write_gray(image, result.as<uint8_t>());
  return Status();
}

// --- images of any format

bool begins_as_image(ImageBytes bytes) {
  return known_format(text_of(bytes)) != nullptr;
}

Result<ImageSize> any_image_size(ImageBytes bytes) {
  const Format* format = nullptr;
  GANTRY_TRY(find_format(bytes, &format));
  return format->size(bytes);
}

Status decode_any_image(ImageBytes bytes, const RgbImage& image) {
  const Format* format = nullptr;
  GANTRY_TRY(find_format(bytes, &format));
  return format->decode(bytes, image);
}

// --- what formats share

Status bad_image(const char* format, const char* why) {
  return failure(GANTRY_INVALID_ARGUMENT, "the image cannot be decoded as %s: %s", format, why);
}

Result<ImageSize> image_size(const char* format, uint64_t width, uint64_t height) {
  if (width < 1 || height < 1) return bad_image(format, "it has no pixels");
  if (width > kLongestImageSide || height > kLongestImageSide || width * height > kMostImagePixels) {
    return failure(GANTRY_INVALID_ARGUMENT,
                   "the image in %s has %llu x %llu pixels; at most %llu a side and %llu in all are decoded",
                   format, static_cast<unsigned long long>(width), static_cast<unsigned long long>(height),
                   static_cast<unsigned long long>(kLongestImageSide),
                   static_cast<unsigned long long>(kMostImagePixels));
  }
  return ImageSize{static_cast<uint32_t>(width), static_cast<uint32_t>(height)};
}

std::unique_ptr<uint8_t[]> image_memory(uint64_t bytes) {
  return std::unique_ptr<uint8_t[]>(new (std::nothrow) uint8_t[bytes]);
}

Status no_image_memory(const char* format, uint64_t bytes) {
  return failure(GANTRY_OUT_OF_MEMORY, "no memory for an image in %s: %s", format,
                 byte_text(static_cast<double>(bytes)).c_str());
}

}  // namespace gantry::runtime
