#include <turbojpeg.h>

#include <memory>

#include "host/cli/image.h"
#include "host/support/error.h"

namespace gantry::cli {

Image decode_jpeg(std::span<const std::byte> bytes, const std::string& name) {
  const std::unique_ptr<void, int (*)(tjhandle)> decoder(tjInitDecompress(), tjDestroy);
  internal_check(decoder != nullptr, "libturbojpeg cannot be started");
  const auto fail = [&] {
    user_error("{}: cannot be decoded as JPEG: {}", name, tjGetErrorStr2(decoder.get()));
  };
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  int width = 0, height = 0, subsampling = 0, space = 0;
  if (tjDecompressHeader3(decoder.get(), data, bytes.size(), &width, &height, &subsampling, &space) != 0)
    fail();
  if (space == TJCS_CMYK || space == TJCS_YCCK)
    user_error("{}: a JPEG of CMYK colours, made for printing; convert it to RGB", name);
  const bool gray = space == TJCS_GRAY;
  Image image = new_image(width, height, gray ? 1 : 3, name);
  // A warning is data that was missing or damaged. Scans are limited: a small file may hold thousands of
  // them.
  const int flags = TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;
  if (tjDecompress2(decoder.get(), data, bytes.size(), image.pixels.data(), width, 0, height,
                    gray ? TJPF_GRAY : TJPF_RGB, flags) != 0) {
    fail();
  }
  return image;
}

}  // namespace gantry::cli
