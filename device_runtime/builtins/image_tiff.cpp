// TIFF of strips: bilevel, gray, of a palette or RGB, 1 to 16 bits a sample, plain or packed by PackBits, LZW
// or Deflate; the file's first image. Debian's libtiff would bring seven more libraries to a board. Format:
// TIFF 6.0, https://www.itu.int/itudoc/itu-t/com16/tiff-fx/docs/tiff6.pdf
#include <algorithm>

#include "device_runtime/builtins/images.h"
#include "device_runtime/builtins/tiff_unpack.h"

namespace gantry::runtime {
namespace {

constexpr const char* kName = "TIFF";

enum Tag : uint32_t {
  kWidth = 256,
  kHeight = 257,
  kBits = 258,
  kCompression = 259,
  kPhotometric = 262,
  kFillOrder = 266,
  kStripOffsets = 273,
  kSamples = 277,
  kRowsPerStrip = 278,
  kStripBytes = 279,
  kPlanes = 284,
  kPredictor = 317,
  kPalette = 320,
  kTileWidth = 322,
  kSampleFormat = 339,
};

/// The fields of a file's first image.
class Directory {
 public:
  /// False: it is not whole.
  bool read(ImageBytes bytes) {
    bytes_ = bytes;
    if (bytes.size() < 8) return false;
    is_big_ = bytes[0] == 'M';
    begin_ = number(4, 4);
    if (begin_ > bytes.size() - 2) return false;
    count_ = number(begin_, 2);
    return count_ * kEntryBytes <= bytes.size() - 2 - begin_;
  }
  bool is_big_endian() const { return is_big_; }
  bool has(Tag tag) const { return find(tag).count > 0; }
  /// How many values the field has that are there.
  uint64_t count(Tag tag) const { return find(tag).count; }
  /// One of its values; `otherwise` where it has not so many.
  uint64_t value(Tag tag, uint64_t index = 0, uint64_t otherwise = 0) const {
    return value(find(tag), index, otherwise);
  }

  struct Field {
    uint64_t at = 0, count = 0;
    uint32_t width = 0;  ///< bytes of a value
  };
  /// Without values where it is absent, holds no integers, or lies outside of the file.
  Field find(Tag tag) const {
    for (uint64_t i = 0; i < count_; ++i) {
      const uint64_t entry = begin_ + 2 + i * kEntryBytes;
      if (number(entry, 2) != tag) continue;
      const uint64_t type = number(entry + 2, 2);
      Field field{entry + 8, number(entry + 4, 4), type == 1 ? 1u : type == 3 ? 2u : type == 4 ? 4u : 0u};
      const uint64_t bytes = field.count * field.width;
      if (bytes > 4) field.at = number(entry + 8, 4);
      const bool there = bytes > 0 && field.at <= bytes_.size() && bytes <= bytes_.size() - field.at;
      return there ? field : Field{};
    }
    return {};
  }
  uint64_t value(const Field& field, uint64_t index, uint64_t otherwise = 0) const {
    return index < field.count ? number(field.at + index * field.width, field.width) : otherwise;
  }

 private:
  static constexpr uint64_t kEntryBytes = 12;

  uint64_t number(uint64_t at, uint32_t width) const {
    uint64_t value = 0;
    for (uint32_t i = 0; i < width; ++i)
      value |= uint64_t{bytes_[at + i]} << 8 * (is_big_ ? width - 1 - i : i);
    return value;
  }

  ImageBytes bytes_;
  bool is_big_ = false;
  uint64_t begin_ = 0, count_ = 0;
};

struct Layout {
  ImageSize size;
  uint64_t bits = 0, samples = 0, photometric = 0, predictor = 0;
  uint64_t rows_per_strip = 0, row_bytes = 0;
  UnpackTiff unpack = nullptr;  ///< null: rows are plain
  bool high_byte_first = false;
};

constexpr uint64_t kWhiteIsZero = 0, kBlackIsZero = 1, kRgb = 2, kIndexed = 3;

/// Null and a reason where it is none that is known.
UnpackTiff find_unpack(uint64_t compression, const char** why) {
  switch (compression) {
    case 1:
      return nullptr;
    case 5:
      return unpack_lzw;
    case 32773:
      return unpack_bits;
    case 8:
    case 32946:
#ifdef GANTRY_WITH_ZLIB
      return unpack_deflate;
#else
      *why =
          "it is packed by Deflate, which this runtime was built without: build gantry where zlib1g-dev is";
      return nullptr;
#endif
    default:
      *why = "it is packed neither by PackBits, LZW nor Deflate";
      return nullptr;
  }
}

/// Why samples are none that are decoded; null: they are.
const char* wrong_samples(const Directory& directory, const Layout& layout) {
  if (layout.samples < 1 || layout.samples > 8) return "a pixel has no sample, or more than 8";
  for (uint64_t i = 1; i < std::min(directory.count(kBits), layout.samples); ++i) {
    if (directory.value(kBits, i) != layout.bits) return "its samples are of different sizes";
  }
  const uint64_t bits = layout.bits;
  if (bits != 1 && bits != 2 && bits != 4 && bits != 8 && bits != 16)
    return "a sample has neither 1, 2, 4, 8 nor 16 bits";
  if (directory.value(kSampleFormat, 0, 1) != 1) return "its samples are no unsigned integers";
  if (layout.photometric > kIndexed) return "it is neither gray, RGB nor of a palette";
  if (layout.photometric == kRgb && layout.samples < 3) return "a pixel has less than three samples";
  if (layout.photometric == kIndexed && (bits > 8 || directory.count(kPalette) < uint64_t{3} << bits))
    return "its palette is cut off, or too large";
  if (layout.samples > 1 && directory.value(kPlanes, 0, 1) != 1)
    return "its channels are planes of their own";
  if (directory.value(kFillOrder, 0, 1) != 1) return "the bits of its bytes are in reverse";
  if (layout.predictor != 1 && (layout.predictor != 2 || bits != 8)) return "its predictor is not known";
  return nullptr;
}

Result<Layout> read_layout(const Directory& directory) {
  Layout layout;
  Result<ImageSize> size = image_size(kName, directory.value(kWidth), directory.value(kHeight));
  if (!size.ok()) return size.status();
  layout.size = *size;
  layout.bits = directory.value(kBits, 0, 1);
  layout.samples = directory.value(kSamples, 0, 1);
  layout.photometric = directory.value(kPhotometric, 0, kBlackIsZero);
  layout.predictor = directory.value(kPredictor, 0, 1);
  layout.high_byte_first = directory.is_big_endian();
  if (const char* why = wrong_samples(directory, layout)) return bad_image(kName, why);
  const char* why = directory.has(kTileWidth) ? "it is of tiles" : nullptr;
  layout.unpack = find_unpack(directory.value(kCompression, 0, 1), &why);
  const uint64_t height = layout.size.height;
  layout.rows_per_strip = std::min(directory.value(kRowsPerStrip, 0, height), height);
  layout.row_bytes = (layout.size.width * layout.samples * layout.bits + 7) / 8;
  if (why == nullptr && layout.rows_per_strip == 0) why = "its strips have no rows";
  if (why != nullptr) return bad_image(kName, why);
  const uint64_t strips = (height + layout.rows_per_strip - 1) / layout.rows_per_strip;
  if (directory.count(kStripOffsets) < strips || directory.count(kStripBytes) < strips)
    return bad_image(kName, "its strips are not all there");
  return layout;
}

/// Rows of samples as red, green and blue.
class RowWriter {
 public:
  RowWriter(const Directory& directory, const Layout& layout) : layout_(layout) {
    if (layout.photometric != kIndexed) return;
    const Directory::Field field = directory.find(kPalette);
    const uint32_t colours = 1u << layout.bits;
    for (uint32_t i = 0; i < 3 * colours; ++i)
      palette_[i % colours][i / colours] = static_cast<uint8_t>(directory.value(field, i) >> 8);
  }

  void write(const uint8_t* row, uint8_t* rgb) const {
    for (uint64_t x = 0; x < layout_.size.width; ++x, rgb += 3) {
      const uint64_t first = x * layout_.samples;
      if (layout_.photometric == kIndexed) {
        std::copy_n(palette_[sample(row, first)], 3, rgb);
        continue;
      }
      for (uint64_t c = 0; c < 3; ++c)
        rgb[c] = brightness(row, layout_.photometric == kRgb ? first + c : first);
    }
  }

 private:
  /// Of 16 bits the upper ones.
  uint32_t sample(const uint8_t* row, uint64_t index) const {
    if (layout_.bits == 16) return row[2 * index + (layout_.high_byte_first ? 0 : 1)];
    const uint64_t bit = index * layout_.bits;
    return (row[bit / 8] >> (8 - layout_.bits - bit % 8)) & ((1u << layout_.bits) - 1);
  }
  uint8_t brightness(const uint8_t* row, uint64_t index) const {
    const uint32_t most = layout_.bits >= 8 ? 255 : (1u << layout_.bits) - 1;
    const uint32_t value = sample(row, index) * (255 / most);
    return static_cast<uint8_t>(layout_.photometric == kWhiteIsZero ? 255 - value : value);
  }

  const Layout& layout_;
  uint8_t palette_[256][3] = {};
};

/// Samples are differences to those of the pixel on the left.
void add_differences(uint8_t* row, const Layout& layout) {
  for (uint64_t i = layout.samples; i < layout.row_bytes; ++i)
    row[i] = static_cast<uint8_t>(row[i] + row[i - layout.samples]);
}

Status decode_strips(ImageBytes bytes, const Directory& directory, const Layout& layout,
                     const RgbImage& image) {
  const RowWriter writer(directory, layout);
  const Directory::Field offsets = directory.find(kStripOffsets), lengths = directory.find(kStripBytes);
  const bool is_plain = layout.unpack == nullptr && layout.predictor == 1;
  const uint64_t strip_bytes = is_plain ? 1 : layout.rows_per_strip * layout.row_bytes;
  const std::unique_ptr<uint8_t[]> memory = image_memory(strip_bytes);
  if (memory == nullptr) return no_image_memory(kName, strip_bytes);
  for (uint64_t begin = 0, strip = 0; begin < image.size.height; begin += layout.rows_per_strip, ++strip) {
    const uint64_t rows = std::min(layout.rows_per_strip, image.size.height - begin);
    const uint64_t offset = directory.value(offsets, strip), length = directory.value(lengths, strip);
    if (offset > bytes.size() || length > bytes.size() - offset)
      return bad_image(kName, "a strip lies outside of it");
    const ImageBytes packed = bytes.subspan(offset, length);
    const uint64_t wanted = rows * layout.row_bytes;
    if (layout.unpack == nullptr && length < wanted) return bad_image(kName, "a strip is cut off");
    if (layout.unpack != nullptr && !layout.unpack(packed, {memory.get(), wanted}))
      return bad_image(kName, "a strip is damaged or cut off");
    if (layout.unpack == nullptr && !is_plain) std::copy_n(packed.data(), wanted, memory.get());
    for (uint64_t y = 0; y < rows; ++y) {
      if (layout.predictor == 2) add_differences(memory.get() + y * layout.row_bytes, layout);
      const uint8_t* row = (is_plain ? packed.data() : memory.get()) + y * layout.row_bytes;
      writer.write(row, image.row(static_cast<uint32_t>(begin + y)));
    }
  }
  return Status();
}

}  // namespace

Result<ImageSize> tiff_size(ImageBytes bytes) {
  Directory directory;
  if (!directory.read(bytes)) return bad_image(kName, "its directory is damaged or cut off");
  const Result<Layout> layout = read_layout(directory);
  if (!layout.ok()) return layout.status();
  return layout.value().size;
}

Status decode_tiff(ImageBytes bytes, const RgbImage& image) {
  Directory directory;
  if (!directory.read(bytes)) return bad_image(kName, "its directory is damaged or cut off");
  const Result<Layout> layout = read_layout(directory);
  if (!layout.ok()) return layout.status();
  if (layout.value().size != image.size) return bad_image(kName, "its bytes change meanwhile");
  return decode_strips(bytes, directory, layout.value(), image);
}

}  // namespace gantry::runtime
