// PBM, PGM and PPM, as text (P1, P2, P3) and binary (P4, P5, P6), with up to 65535 for the brightest.
// Format: https://netpbm.sourceforge.net/doc/ppm.html
#include <algorithm>

#include "device_runtime/builtins/images.h"

namespace gantry::runtime {
namespace {

constexpr const char* kName = "PNM";
constexpr uint32_t kMostBrightness = 65535;
constexpr size_t kKindBytes = 2;

bool is_digit(uint8_t c) {
  return c >= '0' && c <= '9';
}
bool is_blank(uint8_t c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/// Numbers of text, which blanks and comments separate.
class TextReader {
 public:
  explicit TextReader(ImageBytes bytes) : bytes_(bytes) {}

  /// False: there is none, or it is above `most`.
  bool number(uint32_t most, uint32_t* value) {
    skip_blanks();
    if (at_ == bytes_.size() || !is_digit(bytes_[at_])) return false;
    *value = 0;
    for (; at_ < bytes_.size() && is_digit(bytes_[at_]); ++at_) {
      *value = 10 * *value + (bytes_[at_] - '0');
      if (*value > most) return false;
    }
    return true;
  }
  /// A digit by itself: those of P1 need no blanks between them.
  bool bit(uint32_t* value) {
    skip_blanks();
    if (at_ == bytes_.size() || (bytes_[at_] != '0' && bytes_[at_] != '1')) return false;
    *value = bytes_[at_++] - '0';
    return true;
  }
  size_t place() const { return at_; }
  /// Whether what comes next is no part of what was read. Of a comment behind a binary header's last number
  /// nobody could tell where it ends and data begin.
  bool is_separated() const {
    return at_ == bytes_.size() || is_blank(bytes_[at_]) || (at_ == kKindBytes && bytes_[at_] == '#');
  }

 private:
  void skip_blanks() {
    for (; at_ < bytes_.size(); ++at_) {
      if (bytes_[at_] == '#') {
        while (at_ + 1 < bytes_.size() && bytes_[at_] != '\n') ++at_;
      } else if (!is_blank(bytes_[at_])) {
        return;
      }
    }
  }

  ImageBytes bytes_;
  size_t at_ = kKindBytes;
};

struct Header {
  ImageSize size;
  bool is_text = false, is_bits = false, is_gray = false;
  uint32_t brightest = 1;
  size_t end =
      0;  ///< binary: where the data begin, one blank behind the last number; text: behind that number

  uint64_t channels() const { return is_gray ? 1 : 3; }
  uint64_t sample_bytes() const { return brightest > 255 ? 2 : 1; }
  uint64_t row_bytes() const {
    return is_bits ? (uint64_t{size.width} + 7) / 8 : size.width * channels() * sample_bytes();
  }
};

Result<Header> read_header(ImageBytes bytes) {
  if (bytes.size() < kKindBytes) return bad_image(kName, "its header is cut off");
  Header header;
  const int kind = bytes[1] - '0';
  header.is_text = kind <= 3;
  header.is_bits = kind == 1 || kind == 4;
  header.is_gray = kind != 3 && kind != 6;
  TextReader reader(bytes);
  uint32_t width = 0, height = 0;
  constexpr uint32_t kMost = 100'000'000;
  if (!reader.is_separated() || !reader.number(kMost, &width) || !reader.number(kMost, &height) ||
      (!header.is_bits && !reader.number(kMostBrightness, &header.brightest)) || header.brightest == 0 ||
      (!header.is_text && !reader.is_separated()))
    return bad_image(kName, "its header is damaged or cut off");
  Result<ImageSize> size = image_size(kName, width, height);
  if (!size.ok()) return size.status();
  header.size = *size;
  header.end = reader.place() + (header.is_text ? 0 : 1);
  const uint64_t left = header.end > bytes.size() ? 0 : bytes.size() - header.end;
  // As text, a sample is a digit at least.
  const uint64_t samples = header.size.width * header.channels();
  if ((header.is_text ? samples : header.row_bytes()) * header.size.height > left)
    return bad_image(kName, "its pixels are cut off");
  return header;
}

/// A sample from 0 to `brightest` as one from 0 to 255.
uint8_t scaled(uint32_t value, uint32_t brightest) {
  return static_cast<uint8_t>((value * 255 + brightest / 2) / brightest);
}

/// Where samples stand: one behind the other as text, or in rows of bytes.
class Samples {
 public:
  Samples(ImageBytes bytes, const Header& header)
      : header_(header), text_(bytes), rest_(bytes.subspan(std::min(bytes.size(), header.end))) {}

  bool start() {
    if (!header_.is_text) return true;
    // Again over the header, which has been read.
    uint32_t skipped = 0;
    for (int i = 0; i < (header_.is_bits ? 2 : 3); ++i) {
      if (!text_.number(100'000'000, &skipped)) return false;
    }
    return true;
  }
  /// Sample `index` of row `y`, as 0 to 255. False: it is not there, or brighter than the brightest.
  bool read(uint32_t y, uint64_t index, uint8_t* result) {
    uint32_t value = 0;
    if (header_.is_text) {
      const bool there = header_.is_bits ? text_.bit(&value) : text_.number(header_.brightest, &value);
      if (!there) return false;
    } else {
      value = binary(rest_.data() + y * header_.row_bytes(), index);
    }
    if (value > header_.brightest) return false;
    // A bit that is set is black.
    *result = header_.is_bits ? (value == 0 ? 255 : 0) : scaled(value, header_.brightest);
    return true;
  }

 private:
  uint32_t binary(const uint8_t* row, uint64_t index) const {
    if (header_.is_bits) return (row[index / 8] >> (7 - index % 8)) & 1;
    if (header_.sample_bytes() == 1) return row[index];
    return uint32_t{row[2 * index]} << 8 | row[2 * index + 1];
  }

  const Header& header_;
  TextReader text_;
  ImageBytes rest_;
};

}  // namespace

Result<ImageSize> pnm_size(ImageBytes bytes) {
  const Result<Header> header = read_header(bytes);
  if (!header.ok()) return header.status();
  return header.value().size;
}

Status decode_pnm(ImageBytes bytes, const RgbImage& image) {
  const Result<Header> read = read_header(bytes);
  if (!read.ok()) return read.status();
  const Header& header = read.value();
  if (header.size != image.size) return bad_image(kName, "its bytes change meanwhile");
  Samples samples(bytes, header);
  bool there = samples.start();
  for (uint32_t y = 0; there && y < image.size.height; ++y) {
    uint8_t* rgb = image.row(y);
    for (uint64_t i = 0; there && i < image.size.width * header.channels(); ++i) {
      uint8_t value = 0;
      there = samples.read(y, i, &value);
      if (header.is_gray) {
        rgb[3 * i] = rgb[3 * i + 1] = rgb[3 * i + 2] = value;
      } else {
        rgb[i] = value;
      }
    }
  }
  return there ? Status() : bad_image(kName, "a sample is missing, or brighter than the brightest");
}

}  // namespace gantry::runtime
