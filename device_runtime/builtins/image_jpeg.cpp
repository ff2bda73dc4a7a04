// JPEG by libjpeg-turbo, whose own interface reports errors as values.
#include <turbojpeg.h>

#include <memory>

#include "device_runtime/builtins/images.h"

namespace gantry::runtime {
namespace {

constexpr const char* kName = "JPEG";

/// Owns a decoder and what its header says.
class Decoder {
 public:
  explicit Decoder(ImageBytes bytes) : handle_(tjInitDecompress(), tjDestroy), bytes_(bytes) {}

  Result<ImageSize> size() {
    if (handle_ == nullptr) return failure(GANTRY_OUT_OF_MEMORY, "no memory for a decoder of JPEG");
    int width = 0, height = 0, subsampling = 0, space = 0;
    if (tjDecompressHeader3(handle_.get(), bytes_.data(), bytes_.size(), &width, &height, &subsampling,
                            &space) != 0)
      return bad_image(kName, message());
    if (space == TJCS_CMYK || space == TJCS_YCCK)
      return bad_image(kName, "its colours are CMYK, made for printing: convert it to RGB");
    if (width < 0 || height < 0) return bad_image(kName, "it has no size");
    return image_size(kName, static_cast<uint64_t>(width), static_cast<uint64_t>(height));
  }
  Status decode(const RgbImage& image) {
    // A warning is data that was missing or damaged. Scans are limited: a small file may hold thousands of
    // them.
    constexpr int kFlags = TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;
    const int width = static_cast<int>(image.size.width), height = static_cast<int>(image.size.height);
    if (tjDecompress2(handle_.get(), bytes_.data(), bytes_.size(), image.pixels, width, 3 * width, height,
                      TJPF_RGB, kFlags) != 0)
      return bad_image(kName, message());
    return Status();
  }

 private:
  const char* message() { return tjGetErrorStr2(handle_.get()); }

  std::unique_ptr<void, int (*)(tjhandle)> handle_;
  ImageBytes bytes_;
};

}  // namespace

Result<ImageSize> jpeg_size(ImageBytes bytes) {
  return Decoder(bytes).size();
}

Status decode_jpeg(ImageBytes bytes, const RgbImage& image) {
  Decoder decoder(bytes);
  const Result<ImageSize> size = decoder.size();
  if (!size.ok()) return size.status();
  if (size.value() != image.size) return bad_image(kName, "its bytes change meanwhile");
  return decoder.decode(image);
}

}  // namespace gantry::runtime
