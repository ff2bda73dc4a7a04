#include "host/cli/preprocess.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "host/support/error.h"
#include "host/support/words.h"
#include "host/tensor/element.h"

namespace gantry::cli {
namespace {

using Layout = Preprocess::Layout;
using Resize = Preprocess::Resize;
using Colour = Preprocess::Colour;

/// What the model wants of an image; 0: it leaves that open.
struct Geometry {
  bool channels_last = false;
  int64_t channels = 0, height = 0, width = 0;
};

bool are_channels(int64_t dim) {
  return dim == 1 || dim == 3;
}

[[noreturn]] void no_image(const rpc::TensorDescription& wanted, const std::string& source,
                           const std::string& why) {
  user_error("{}: is an image, but input '{}' takes {}: {}", source, wanted.name,
             type_and_shape(wanted.type, wanted.shape), why);
}

/// The layout that --preprocess or the shape says: the axis of 1 or 3 values is the channels'.
bool channels_come_last(const Preprocess& preprocess, const rpc::TensorDescription& wanted, int64_t first,
                        int64_t last, const std::string& source) {
  if (preprocess.layout != Layout::kOfModel) return preprocess.layout == Layout::kNhwc;
  if (are_channels(first) != are_channels(last)) return are_channels(last);
  if (are_channels(first) || first < 0 || last < 0) {
    no_image(wanted, source,
             "its shape does not tell which axis is the channels'; say layout = \"nchw\" or \"nhwc\" in the "
             "file of --preprocess");
  }
  no_image(wanted, source, "no axis has the 1 or 3 values of an image's channels");
}

Geometry geometry_of(const Preprocess& preprocess, const rpc::TensorDescription& wanted,
                     const std::string& source) {
  const std::vector<int64_t>& shape = wanted.shape;
  const auto open = [](int64_t dim) { return std::max<int64_t>(dim, 0); };
  if (shape.size() == 2) return {false, 1, open(shape[0]), open(shape[1])};
  if (shape.size() != 3 && shape.size() != 4)
    no_image(wanted, source, "images are of rank 4 (a batch), 3 or 2");
  if (shape.size() == 4 && shape[0] >= 0 && shape[0] != 1) {
    no_image(wanted, source,
             fmt::format("one image is a batch of 1; save {} of them as one .npy array", shape[0]));
  }
  const size_t at = shape.size() - 3;
  Geometry geometry;
  geometry.channels_last = channels_come_last(preprocess, wanted, shape[at], shape[at + 2], source);
  geometry.channels = open(shape[geometry.channels_last ? at + 2 : at]);
  geometry.height = open(shape[geometry.channels_last ? at : at + 1]);
  geometry.width = open(shape[geometry.channels_last ? at + 1 : at + 2]);
  return geometry;
}

/// Fills in what the model leaves open from the preprocessing, and checks the two against each other.
void complete_size(Geometry& geometry, const Image& image, const Preprocess& preprocess,
                   const rpc::TensorDescription& wanted, const std::string& source) {
  if (geometry.height != 0 && geometry.width != 0) return;
  Preprocess::Size size{image.height, image.width};
  if (preprocess.size) {
    size = *preprocess.size;
  } else if (preprocess.resize != Resize::kNone) {
    no_image(wanted, source,
             fmt::format("it leaves the size open; say size = [HEIGHT, WIDTH] in {}", preprocess.name));
  }
  if (geometry.height == 0) geometry.height = size.height;
  if (geometry.width == 0) geometry.width = size.width;
}

Colour complete_colour(Geometry& geometry, const Preprocess& preprocess, const rpc::TensorDescription& wanted,
                       const std::string& source) {
  const Colour colour = preprocess.colour.value_or(geometry.channels == 1 ? Colour::kGray : Colour::kRgb);
  const int64_t channels = colour == Colour::kGray ? 1 : 3;
  if (geometry.channels == 0) geometry.channels = channels;
  if (geometry.channels == channels) return colour;
  if (!are_channels(geometry.channels)) {
    no_image(
        wanted, source,
        fmt::format("{} channels where an image has 1 or 3; layout in the file of --preprocess says which "
                    "axis is theirs",
                    geometry.channels));
  }
  no_image(wanted, source,
           fmt::format("{} has {}; say colour = \"{}\" in the file of --preprocess", preprocess.name,
                       counted(channels, "channel"), channels == 1 ? "rgb" : "gray"));
}

/// Means and deviations are for all channels or for each.
void check_statistics(const Preprocess& p, int64_t channels, const rpc::TensorDescription& wanted) {
  for (const auto& [key, values] : {std::pair{"mean", &p.mean}, std::pair{"std", &p.std}}) {
    if (values->size() == 1 || static_cast<int64_t>(values->size()) == channels) continue;
    user_error("--preprocess {}: {} has {} numbers, but input '{}' takes {}", p.name, key, values->size(),
               wanted.name, counted(channels, "channel"));
  }
}

Image in_colour(const Image& image, Colour colour) {
  if (colour == Colour::kGray) return to_gray(image);
  Image result = image;
  if (colour == Colour::kBgr) {
    for (size_t i = 0; i < result.pixels.size(); i += 3) std::swap(result.pixels[i], result.pixels[i + 2]);
  }
  return result;
}

int as_int(double value) {
  return static_cast<int>(std::clamp(value, 1.0, static_cast<double>(kLongestSide) + 1));
}

/// torchvision's Resize and CenterCrop: the longer side is rounded down, half a pixel to the nearest even
/// one.
Image centre_crop(const Image& image, const Preprocess& p, int height, int width, const std::string& source) {
  const bool by_width =
      static_cast<int64_t>(image.width) * height <= static_cast<int64_t>(image.height) * width;
  // The side that leaves less to cut; with a stated shorter side, simply the shorter.
  const bool width_leads = p.shorter_side != 0 ? image.width <= image.height : by_width;
  const int side =
      p.shorter_side != 0
          ? p.shorter_side
          : as_int(std::nearbyint(p.shorter_ratio * static_cast<double>(width_leads ? width : height)));
  const double longer = static_cast<double>(side) *
                        static_cast<double>(width_leads ? image.height : image.width) /
                        static_cast<double>(width_leads ? image.width : image.height);
  // Rounded down, the side may just miss what is cut from it.
  const int other = std::max(as_int(longer), p.shorter_side != 0 ? 1 : width_leads ? height : width);
  const int new_width = width_leads ? side : other, new_height = width_leads ? other : side;
  if (new_width < width || new_height < height) {
    user_error("{}: {} makes {} x {} pixels of it, too few to cut {} x {} from; give a larger shorter_side",
               source, p.name, new_width, new_height, width, height);
  }
  const Image resized = resize(image, new_width, new_height, p.interpolation, p.antialias, source);
  const int left = static_cast<int>(std::nearbyint((new_width - width) / 2.0));
  const int top = static_cast<int>(std::nearbyint((new_height - height) / 2.0));
  return crop(resized, left, top, width, height);
}

/// The image in the middle of a frame; an odd pixel more goes right and below.
Image letterbox(const Image& image, const Preprocess& p, int height, int width, const std::string& source) {
  const double ratio =
      std::min(static_cast<double>(height) / image.height, static_cast<double>(width) / image.width);
  const int new_width = std::min(width, as_int(std::nearbyint(image.width * ratio)));
  const int new_height = std::min(height, as_int(std::nearbyint(image.height * ratio)));
  const Image inner = resize(image, new_width, new_height, p.interpolation, p.antialias, source);
  Image frame = new_image(width, height, image.channels, source);
  const auto channels = static_cast<size_t>(image.channels);
  for (size_t i = 0; i < frame.pixels.size(); ++i)
    frame.pixels[i] = static_cast<uint8_t>(p.pad_value[i % channels]);
  const int left = (width - new_width) / 2, top = (height - new_height) / 2;
  for (int y = 0; y < new_height; ++y) {
    std::memcpy(frame.row(top + y) + static_cast<size_t>(left) * channels, inner.row(y), inner.row_bytes());
  }
  return frame;
}

Image in_size(const Image& image, const Preprocess& p, int height, int width, const std::string& source) {
  switch (p.resize) {
    case Resize::kStretch:
      return resize(image, width, height, p.interpolation, p.antialias, source);
    case Resize::kCrop:
      return centre_crop(image, p, height, width, source);
    case Resize::kPad:
      return letterbox(image, p, height, width, source);
    case Resize::kNone:
      break;
  }
  if (image.width != width || image.height != height) {
    user_error(
        "{}: is {} x {} pixels, but the model takes {} x {}, and --preprocess {} does not resize; "
        "resize = \"stretch\", \"crop\" or \"pad\" does",
        source, image.width, image.height, width, height, p.name);
  }
  return image;
}

/// The 256 elements that a channel's values become, one after the other.
std::vector<std::byte> elements_of_channel(const Preprocess& p, DType dtype, size_t channel) {
  const double mean = p.mean[p.mean.size() == 1 ? 0 : channel];
  const double std = p.std[p.std.size() == 1 ? 0 : channel];
  const auto width = static_cast<size_t>(byte_width(dtype));
  std::vector<std::byte> elements(256 * width);
  for (int value = 0; value < 256; ++value) {
    const double number = (value * p.scale - mean) / std;
    std::byte* at = elements.data() + static_cast<size_t>(value) * width;
    if (is_float(dtype)) {
      write_float(dtype, at, number);
    } else {
      const double least = dtype == DType::kU8 ? 0 : -128;
      write_integer(dtype, at, static_cast<int64_t>(std::clamp(std::nearbyint(number), least, least + 255)));
    }
  }
  return elements;
}

DType dtype_for(const rpc::TensorDescription& wanted, const std::string& source) {
  const auto dtype = parse_dtype(type_name(wanted.type));
  const bool fits = dtype && (is_float(*dtype) || *dtype == DType::kU8 || *dtype == DType::kI8);
  if (!fits) no_image(wanted, source, "images become f32, f64, f16, bf16, u8 or i8");
  return *dtype;
}

HostTensor in_layout(const Image& image, const Preprocess& p, DType dtype, bool channels_last,
                     const rpc::TensorDescription& wanted) {
  const auto width = static_cast<size_t>(byte_width(dtype));
  const auto channels = static_cast<size_t>(image.channels);
  const size_t points = image.pixels.size() / channels;
  HostTensor tensor{wanted.type, {}, std::vector<std::byte>(image.pixels.size() * width)};
  for (size_t c = 0; c < channels; ++c) {
    const std::vector<std::byte> elements = elements_of_channel(p, dtype, c);
    for (size_t i = 0; i < points; ++i) {
      const size_t target = channels_last ? i * channels + c : c * points + i;
      std::memcpy(tensor.bytes.data() + target * width,
                  elements.data() + image.pixels[i * channels + c] * width, width);
    }
  }
  if (wanted.shape.size() == 4) tensor.shape.push_back(1);
  if (wanted.shape.size() > 2 && !channels_last) tensor.shape.push_back(image.channels);
  tensor.shape.push_back(image.height);
  tensor.shape.push_back(image.width);
  if (channels_last) tensor.shape.push_back(image.channels);
  return tensor;
}

}  // namespace

HostTensor image_tensor(const Image& image, const Preprocess& preprocess,
                        const rpc::TensorDescription& wanted, const std::string& source) {
  const DType dtype = dtype_for(wanted, source);
  Geometry geometry = geometry_of(preprocess, wanted, source);
  complete_size(geometry, image, preprocess, wanted, source);
  const Colour colour = complete_colour(geometry, preprocess, wanted, source);
  check_statistics(preprocess, geometry.channels, wanted);
  check_sides(geometry.width, geometry.height, fmt::format("input '{}'", wanted.name));
  const Image sized = in_size(in_colour(image, colour), preprocess, static_cast<int>(geometry.height),
                              static_cast<int>(geometry.width), source);
  return in_layout(sized, preprocess, dtype, geometry.channels_last, wanted);
}

}  // namespace gantry::cli
