// Files of images, by the decoders that models with ImageDecoder have too.
#include "device_runtime/builtins/images.h"
#include "host/cli/image.h"
#include "host/support/error.h"

namespace gantry::cli {
namespace {

static_assert(kLongestSide == runtime::kLongestImageSide && kMostPixels == runtime::kMostImagePixels);

runtime::ImageBytes read_by_runtime(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

}  // namespace

bool begins_as_image(std::span<const std::byte> bytes) {
  return runtime::begins_as_image(read_by_runtime(bytes));
}

Image decode_image(std::span<const std::byte> bytes, const std::string& name) {
  const runtime::ImageBytes file = read_by_runtime(bytes);
  const runtime::Result<runtime::ImageSize> size = runtime::any_image_size(file);
  if (!size.ok()) user_error("{}: {}", name, size.status().message());
  Image image = new_image(size.value().width, size.value().height, 3, name);
  const runtime::Status decoded = runtime::decode_any_image(file, {size.value(), image.pixels.data()});
  if (!decoded.ok()) user_error("{}: {}", name, decoded.message());
  return image;
}

}  // namespace gantry::cli
