// Col2Im and CenterCropPad.
#include "host/onnx/converters.h"
#include "host/onnx/term.h"
#include "host/ops/col2im.h"
#include "host/ops/movement.h"

namespace gantry {
namespace {

void convert_col2im(NodeImport& n) {
  auto attrs = std::make_shared<Col2ImAttrs>();
  attrs->image = n.dims(1, "image_shape");
  n.assume_length(2, std::ssize(attrs->image));
  attrs->kernel = n.dims(2, "block_shape");
  const size_t axes = attrs->kernel.size();
  attrs->strides = n.integer_list("strides", axes, 1);
  attrs->dilations = n.integer_list("dilations", axes, 1);
  const std::vector<int64_t> pads = n.integer_list("pads", 2 * axes, 0);
  attrs->padding.assign(pads.begin(), pads.end());
  // Of truth values that meet, whether any is true.
  const bool is_truth = n.type(0).dtype == DType::kBool;
  Value* columns = is_truth ? n.cast(n.input(0), DType::kI32) : n.input(0);
  Value* image = n.add(nn::col2im, {columns}, attrs);
  n.set(0, is_truth ? n.cast(image, DType::kBool) : image);
}

/// The middle of the data where they are larger than wanted, zeros around them where they are smaller; what
/// does not divide by two is one more at the end.
void convert_center_crop_pad(NodeImport& n) {
  Term x = Term::input(n, 0);
  std::vector<int64_t> axes = n.integer_list("axes");
  if (!n.has_attribute("axes")) axes = axes_from(x, 0);
  n.assume_length(1, std::ssize(axes));
  const Shape wanted = n.dims(1, "shape");
  if (axes.size() != wanted.size()) n.fail("has {} sizes for {} axes", wanted.size(), axes.size());
  auto pad = std::make_shared<PadAttrs>();
  pad->before.assign(static_cast<size_t>(x.rank()), 0);
  pad->after = pad->before;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = n.axis(axes[i], x.rank());
    const Dim have = x.dim(axis), kept = min(have, wanted[i]);
    const Dim begin = floordiv(have - kept, 2), missing = wanted[i] - kept;
    x = x.sliced(axis, begin, begin + kept);
    pad->before[static_cast<size_t>(axis)] = floordiv(missing, 2);
    pad->after[static_cast<size_t>(axis)] = missing - floordiv(missing, 2);
  }
  n.set(0, n.add(op::pad, {x}, pad));
}

}  // namespace

void add_window_converters(ConverterTable& table) {
  table.push_back({"Col2Im", 18, convert_col2im});
  table.push_back({"CenterCropPad", 18, convert_center_crop_pad});
}

}  // namespace gantry
