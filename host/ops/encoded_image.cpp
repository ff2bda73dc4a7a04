#include "host/ops/encoded_image.h"

#include "host/ops/builtin_def.h"
#include "host/ops/families.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

void require_bytes(const Node& node) {
  const TensorType& type = ops::input_type(node, 0);
  ops::require(type.dtype == DType::kU8 && type.rank() == 1, "{} is no vector of bytes", type.str());
}

std::vector<TensorType> infer_size(const Node& node, Function&) {
  require_bytes(node);
  return {{DType::kI64, {2}}};
}

std::vector<TensorType> infer_decode(const Node& node, Function&) {
  require_bytes(node);
  const auto& attrs = node.attrs_as<DecodedImageAttrs>();
  return {{DType::kU8, {attrs.height, attrs.width, attrs.format == PixelFormat::kGrayscale ? 1 : 3}}};
}

}  // namespace

std::optional<BuiltinAttributes> image_builtin(const Node& node) {
  if (node.is(image::size)) return BuiltinAttributes{{}, "", module_format::kImages};
  if (const auto* a = node.match(image::decode))
    return BuiltinAttributes{{static_cast<int64_t>(a->format)}, "", module_format::kImages};
  return std::nullopt;
}

void add_image_ops(OpSet& set) {
  set.add(define_builtin(image::size, {"x"}, 0, infer_size));
  set.add(define_builtin(image::decode, {"x"}, 0, infer_decode));
}

}  // namespace gantry
