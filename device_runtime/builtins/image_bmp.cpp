// BMP of 1, 4, 8, 24 or 32 bits a pixel, not compressed.
// Format: https://learn.microsoft.com/windows/win32/gdi/bitmap-storage

#include "device_runtime/builtins/images.h"

namespace gantry::runtime {
namespace {

constexpr const char* kName = "BMP";

uint32_t read_little(ImageBytes bytes, size_t at, size_t count) {
  uint32_t value = 0;
  for (size_t i = 0; i < count; ++i) value |= uint32_t{bytes[at + i]} << (8 * i);
  return value;
}

/// What the headers say, checked against the bytes that are there.
struct Layout {
  ImageSize size;
  bool from_top = false;
  uint32_t bits = 0;       ///< a pixel
  uint64_t pixels = 0;     ///< where rows begin
  uint64_t row_bytes = 0;  ///< with what fills up to 4 bytes
  ImageBytes palette;      ///< entries of `entry_bytes`: blue, green, red
  size_t entry_bytes = 4;
  uint64_t colours = 0;  ///< entries of the palette
};

/// 32 bits of a pixel are blue, green, red, and 8 more, whatever the order in which masks could have them.
bool has_usual_masks(ImageBytes bytes) {
  return bytes.size() >= 66 && read_little(bytes, 54, 4) == 0xff0000 && read_little(bytes, 58, 4) == 0xff00 &&
         read_little(bytes, 62, 4) == 0xff;
}

constexpr size_t kFileHeader = 14, kCoreHeader = 12, kInfoHeader = 40;

Result<Layout> read_info(ImageBytes bytes, uint64_t header) {
  Layout layout;
  const bool is_core = header == kCoreHeader;
  const size_t side = is_core ? 2 : 4;
  const auto width = static_cast<int32_t>(read_little(bytes, 18, side));
  const auto height = static_cast<int32_t>(read_little(bytes, 18 + side, side));
  layout.from_top = height < 0;
  if (width < 0) return bad_image(kName, "its width is negative");
  Result<ImageSize> size = image_size(kName, static_cast<uint64_t>(width),
                                      static_cast<uint64_t>(height < 0 ? -int64_t{height} : int64_t{height}));
  if (!size.ok()) return size.status();
  layout.size = *size;
  layout.bits = read_little(bytes, is_core ? 24 : 28, 2);
  const uint32_t compression = is_core ? 0 : read_little(bytes, 30, 4);
  const bool is_plain = compression == 0 || (compression == 3 && layout.bits == 32 && has_usual_masks(bytes));
  if (!is_plain) return bad_image(kName, "it is compressed, or its channels have masks of their own");
  const bool has_palette = layout.bits == 1 || layout.bits == 4 || layout.bits == 8;
  if (!has_palette && layout.bits != 24 && layout.bits != 32)
    return bad_image(kName, "a pixel has neither 1, 4, 8, 24 nor 32 bits");
  if (!has_palette) return layout;
  const uint32_t used = is_core ? 0 : read_little(bytes, 46, 4);
  layout.colours = used == 0 ? uint64_t{1} << layout.bits : used;
  layout.entry_bytes = is_core ? 3 : 4;
  return layout;
}

Result<Layout> read_layout(ImageBytes bytes) {
  if (bytes.size() < kFileHeader + kCoreHeader) return bad_image(kName, "its header is cut off");
  const uint64_t header = read_little(bytes, 14, 4);
  if ((header != kCoreHeader && header < kInfoHeader) || bytes.size() - kFileHeader < header)
    return bad_image(kName, "its header is cut off, or of an unknown kind");
  Result<Layout> info = read_info(bytes, header);
  if (!info.ok()) return info;
  Layout& layout = *info;
  const uint64_t palette = kFileHeader + header, palette_bytes = layout.colours * layout.entry_bytes;
  if (layout.colours > 256 || palette_bytes > bytes.size() - palette)
    return bad_image(kName, "its palette is cut off, or too large");
  layout.palette = bytes.subspan(palette, palette_bytes);
  layout.pixels = read_little(bytes, 10, 4);
  layout.row_bytes = (uint64_t{layout.size.width} * layout.bits + 31) / 32 * 4;
  const uint64_t needed = layout.row_bytes * layout.size.height;
  if (layout.pixels > bytes.size() || needed > bytes.size() - layout.pixels)
    return bad_image(kName, "its pixels are cut off");
  return info;
}

/// False: a pixel is of no colour that there is.
bool write_row(const Layout& layout, const uint8_t* row, uint8_t* rgb) {
  for (uint32_t x = 0; x < layout.size.width; ++x, rgb += 3) {
    const uint8_t* pixel = row + size_t{x} * layout.bits / 8;
    if (layout.bits <= 8) {
      const uint32_t shift = 8 - layout.bits - x * layout.bits % 8;
      const uint32_t colour = (*pixel >> shift) & ((1u << layout.bits) - 1);
      if (colour >= layout.colours) return false;
      pixel = layout.palette.data() + colour * layout.entry_bytes;
    }
    rgb[0] = pixel[2];
    rgb[1] = pixel[1];
    rgb[2] = pixel[0];
  }
  return true;
}

}  // namespace

Result<ImageSize> bmp_size(ImageBytes bytes) {
  const Result<Layout> layout = read_layout(bytes);
  if (!layout.ok()) return layout.status();
  return layout.value().size;
}

Status decode_bmp(ImageBytes bytes, const RgbImage& image) {
  const Result<Layout> read = read_layout(bytes);
  if (!read.ok()) return read.status();
  const Layout& layout = read.value();
  if (layout.size != image.size) return bad_image(kName, "its bytes change meanwhile");
  for (uint32_t y = 0; y < image.size.height; ++y) {
    const uint32_t place = layout.from_top ? y : image.size.height - 1 - y;
    if (!write_row(layout, bytes.data() + layout.pixels + place * layout.row_bytes, image.row(y)))
      return bad_image(kName, "a pixel is of a colour that its palette does not have");
  }
  return Status();
}

}  // namespace gantry::runtime
