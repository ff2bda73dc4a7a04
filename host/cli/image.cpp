#include "host/cli/image.h"

#include "host/support/error.h"

namespace gantry::cli {

void check_sides(int64_t width, int64_t height, const std::string& name) {
  if (width < 1 || height < 1 || width > kLongestSide || height > kLongestSide ||
      width > kMostPixels / height) {
    user_error("{}: an image of {} x {} pixels; sides are at most {}, {} pixels in all", name, width, height,
               kLongestSide, kMostPixels);
  }
}

Image new_image(int64_t width, int64_t height, int channels, const std::string& name) {
  check_sides(width, height, name);
  Image image{static_cast<int>(width), static_cast<int>(height), channels, {}};
  image.pixels.resize(image.row_bytes() * static_cast<size_t>(height));
  return image;
}

Image to_gray(const Image& image) {
  // Shares of 65,536; they add up to it, so that grey stays what it is.
  constexpr uint32_t kRed = 19595, kGreen = 38470, kBlue = 7471, kHalf = 32768;
  Image result = new_image(image.width, image.height, 1, "image");
  for (size_t i = 0; i < result.pixels.size(); ++i) {
    const uint8_t* pixel = image.pixels.data() + 3 * i;
    result.pixels[i] =
        static_cast<uint8_t>((kRed * pixel[0] + kGreen * pixel[1] + kBlue * pixel[2] + kHalf) >> 16);
  }
  return result;
}

}  // namespace gantry::cli
