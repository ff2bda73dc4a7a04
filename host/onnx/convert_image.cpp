// Images of files.
#include "host/onnx/converters.h"
#include "host/ops/encoded_image.h"

namespace gantry {
namespace {

PixelFormat pixel_format(NodeImport& n) {
  const std::string format = n.text("pixel_format", "RGB");
  if (format == "RGB") return PixelFormat::kRgb;
  if (format == "BGR") return PixelFormat::kBgr;
  if (format == "Grayscale") return PixelFormat::kGrayscale;
  n.fail("its pixel_format is '{}', not RGB, BGR or Grayscale", format);
}

void convert_image_decoder(NodeImport& n) {
  Value* bytes = n.input(0);
  if (bytes->type.dtype != DType::kU8 || bytes->type.rank() != 1)
    n.fail("its input {} is no vector of an image's bytes", bytes->type.str());
  auto attrs = std::make_shared<DecodedImageAttrs>();
  attrs->format = pixel_format(n);
  const Shape size = n.bind(n.add(image::size, {bytes}), "image");
  attrs->height = size[0];
  attrs->width = size[1];
  n.set(0, n.add(image::decode, {bytes}, attrs));
}

}  // namespace

void add_image_converters(ConverterTable& table) {
  table.push_back({"ImageDecoder", 20, convert_image_decoder});
}

}  // namespace gantry
