// Ops that decode images of files: calls of the runtime's builtins, on the CPU.
#pragma once

#include "host/graph/attrs.h"
#include "host/graph/graph.h"
#include "host/graph/op_handle.h"

namespace gantry {

/// In the order in which the builtin numbers them.
enum class PixelFormat : uint8_t { kRgb, kBgr, kGrayscale };
struct DecodedImageAttrs : AttrsOf<DecodedImageAttrs> {
  PixelFormat format = PixelFormat::kRgb;
  Dim height = 0, width = 0;
  void fields(AttrVisitor& visit) override {
    visit.enumeration("format", format, {"rgb", "bgr", "grayscale"});
    visit("height", height);
    visit("width", width);
  }
};

namespace image {
/// size(x): height and width, i64 (2), of the image whose file's bytes the u8 vector x holds: BMP, PNM, TIFF,
/// JPEG, PNG or WebP. Other bytes, and those of an image that is too large, end the run with an error.
inline constexpr Op<NoAttrs> size{"image.size"};
/// decode(x): its pixels, u8 (height, width, 3), or 1 for grayscale: ITU-R BT.601's luma.
inline constexpr Op<DecodedImageAttrs> decode{"image.decode"};
}  // namespace image

}  // namespace gantry
