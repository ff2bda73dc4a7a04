// Format: https://netpbm.sourceforge.net/doc/ppm.html
#include <algorithm>
#include <cctype>
#include <cstring>

#include "host/cli/image.h"
#include "host/support/error.h"

namespace gantry::cli {
namespace {

/// Reads the numbers of a header, which comments and white space separate.
class HeaderReader {
 public:
  HeaderReader(std::span<const std::byte> bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  int number() {
    skip_blanks();
    int value = 0;
    bool any = false;
    for (; at_ < bytes_.size() && std::isdigit(byte()) != 0; ++at_, any = true) {
      if (value > 100'000'000) break;
      value = 10 * value + (byte() - '0');
    }
    if (!any) user_error("{}: the PPM header is malformed near byte {}", name_, at_);
    return value;
  }
  /// Where the data begins, one blank after the last number.
  size_t end() const { return at_ + 1; }

 private:
  int byte() const { return std::to_integer<int>(bytes_[at_]); }
  void skip_blanks() {
    for (; at_ < bytes_.size(); ++at_) {
      if (byte() == '#') {
        while (at_ < bytes_.size() && byte() != '\n') ++at_;
        if (at_ == bytes_.size()) return;
      } else if (std::isspace(byte()) == 0) {
        return;
      }
    }
  }

  std::span<const std::byte> bytes_;
  const std::string& name_;
  size_t at_ = 2;  // after the magic
};

}  // namespace

Image decode_pnm(std::span<const std::byte> bytes, const std::string& name) {
  internal_check(bytes.size() >= 2 && bytes[0] == std::byte{'P'}, "no PPM image");
  HeaderReader header(bytes, name);
  const int width = header.number(), height = header.number(), brightest = header.number();
  if (brightest < 1 || brightest > 255)
    user_error("{}: a PPM image whose brightest value is {}; at most 255 are read", name, brightest);
  Image image = new_image(width, height, bytes[1] == std::byte{'6'} ? 3 : 1, name);
  if (header.end() > bytes.size() || image.pixels.size() > bytes.size() - header.end()) {
    user_error("{}: {} x {} pixels are {} bytes of data, but the file has {}: truncated", name, width, height,
               image.pixels.size(), bytes.size() - std::min(bytes.size(), header.end()));
  }
  std::memcpy(image.pixels.data(), bytes.data() + header.end(), image.pixels.size());
  if (brightest == 255) return image;
  for (uint8_t& value : image.pixels) {
    if (value > brightest)
      user_error("{}: holds {}, brighter than its brightest, {}", name, value, brightest);
    value = static_cast<uint8_t>((value * 255 + brightest / 2) / brightest);
  }
  return image;
}

}  // namespace gantry::cli
