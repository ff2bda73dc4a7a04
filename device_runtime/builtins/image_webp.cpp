// WebP by libwebp.
#include <webp/decode.h>

#include "device_runtime/builtins/images.h"

namespace gantry::runtime {
namespace {

constexpr const char* kName = "WebP";

}  // namespace

Result<ImageSize> webp_size(ImageBytes bytes) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(bytes.data(), bytes.size(), &features) != VP8_STATUS_OK)
    return bad_image(kName, "its header is damaged or cut off");
  if (features.has_animation != 0) return bad_image(kName, "it is an animation");
  if (features.width < 0 || features.height < 0) return bad_image(kName, "it has no size");
  return image_size(kName, static_cast<uint64_t>(features.width), static_cast<uint64_t>(features.height));
}

Status decode_webp(ImageBytes bytes, const RgbImage& image) {
  const auto stride = static_cast<int>(3 * image.size.width);
  if (WebPDecodeRGBInto(bytes.data(), bytes.size(), image.pixels, image.bytes(), stride) == nullptr)
    return bad_image(kName, "its data are damaged or cut off, or there is no memory");
  return Status();
}

}  // namespace gantry::runtime
