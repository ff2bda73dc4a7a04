// PackBits and LZW as TIFF 6.0 has them (sections 9 and 13), Deflate by zlib.
#include "device_runtime/builtins/tiff_unpack.h"

#include <algorithm>
#include <cstring>

#ifdef GANTRY_WITH_ZLIB
#include <zlib.h>
#endif

namespace gantry::runtime {
namespace {

/// Codes of 9 to 12 bits, the highest bit of a byte first.
class CodeReader {
 public:
  explicit CodeReader(ImageBytes bytes) : bytes_(bytes) {}

  bool read(uint32_t width, uint32_t* code) {
    while (bits_ < width) {
      if (at_ == bytes_.size()) return false;
      window_ = window_ << 8 | bytes_[at_++];
      bits_ += 8;
    }
    bits_ -= width;
    *code = (window_ >> bits_) & ((1u << width) - 1);
    return true;
  }

 private:
  ImageBytes bytes_;
  size_t at_ = 0;
  uint32_t window_ = 0, bits_ = 0;
};

/// The strings that codes stand for, each another one and a byte.
class CodeTable {
 public:
  static constexpr uint32_t kClear = 256, kEnd = 257, kMost = 4096;

  CodeTable() {
    for (uint32_t code = 0; code < kClear; ++code)
      entries_[code] = {0, 1, static_cast<uint8_t>(code), static_cast<uint8_t>(code)};
  }
  void clear() { next_ = kEnd + 1; }
  uint32_t next() const { return next_; }
  /// One bit more than the largest code of the table needs, from one code early.
  uint32_t code_width() const { return next_ < 511 ? 9 : next_ < 1023 ? 10 : next_ < 2047 ? 11 : 12; }
  uint8_t first_byte(uint32_t code) const { return entries_[code].first; }
  void add(uint32_t prefix, uint8_t last) {
    if (next_ == kMost) return;
    const Entry& before = entries_[prefix];
    entries_[next_++] = {static_cast<uint16_t>(prefix), static_cast<uint16_t>(before.length + 1),
                         before.first, last};
  }
  /// As much of the code's string as fits; how much that is.
  size_t write(uint32_t code, std::span<uint8_t> target) const {
    const size_t length = entries_[code].length;
    for (size_t i = length; i-- > 0; code = entries_[code].prefix) {
      if (i < target.size()) target[i] = entries_[code].last;
    }
    return std::min(length, target.size());
  }

 private:
  struct Entry {
    uint16_t prefix, length;
    uint8_t first, last;
  };
  Entry entries_[kMost] = {};
  uint32_t next_ = kEnd + 1;
};

}  // namespace

bool unpack_bits(ImageBytes packed, std::span<uint8_t> rows) {
  for (size_t at = 0; !rows.empty();) {
    if (at == packed.size()) return false;
    const uint8_t head = packed[at++];
    if (head == 128) continue;
    const bool repeats = head > 128;
    const size_t count = repeats ? size_t{257} - head : size_t{head} + 1;
    if (packed.size() - at < (repeats ? 1 : count)) return false;
    const size_t taken = std::min(count, rows.size());
    if (repeats) {
      std::memset(rows.data(), packed[at], taken);
    } else {
      std::memcpy(rows.data(), packed.data() + at, taken);
    }
    at += repeats ? 1 : count;
    rows = rows.subspan(taken);
  }
  return true;
}

bool unpack_lzw(ImageBytes packed, std::span<uint8_t> rows) {
  CodeReader codes(packed);
  CodeTable table;
  bool is_first = true;  // behind a clear code
  uint32_t code = 0, before = 0;
  while (!rows.empty()) {
    if (!codes.read(table.code_width(), &code) || code == CodeTable::kEnd) return false;
    if (code == CodeTable::kClear) {
      table.clear();
      is_first = true;
      continue;
    }
    if (is_first ? code > CodeTable::kClear : code > table.next()) return false;
    if (!is_first) table.add(before, table.first_byte(code < table.next() ? code : before));
    rows = rows.subspan(table.write(code, rows));
    before = code;
    is_first = false;
  }
  return true;
}

#ifdef GANTRY_WITH_ZLIB
bool unpack_deflate(ImageBytes packed, std::span<uint8_t> rows) {
  if (packed.size() > UINT32_MAX || rows.size() > UINT32_MAX) return false;
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) return false;
  stream.next_in = const_cast<Bytef*>(packed.data());
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = rows.data();
  stream.avail_out = static_cast<uInt>(rows.size());
  const int status = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  return stream.avail_out == 0 && (status == Z_STREAM_END || status == Z_BUF_ERROR || status == Z_OK);
}
#endif

}  // namespace gantry::runtime
