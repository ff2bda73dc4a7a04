// Convolutions.
#include "host/ops/conv.h"
#include "host/onnx/converters.h"
#include "host/onnx/convolution.h"
#include "host/onnx/dim_bounds.h"
#include "host/onnx/window.h"
#include "host/ops/elementwise.h"

namespace gantry {
namespace {

/// The kernel's extents: those of the weight, which the attribute may only repeat.
std::vector<int64_t> kernel_of(NodeImport& n, const TensorType& type) {
  const Shape weight = type.shape;
  std::vector<int64_t> kernel;
  for (size_t i = 2; i < weight.size(); ++i) {
    if (!weight[i].is_constant()) n.unsupported(UnsupportedKind::kRunTimeValue, "dimensions of its weight");
    kernel.push_back(weight[i].value());
  }
  std::vector<int64_t> declared = n.integer_list("kernel_shape");
  if (!declared.empty() && declared != kernel)
    n.fail("its kernel_shape contradicts the weight {}", type.str());
  return kernel;
}

/// Adds a vector along the channels of (N, C, spatial…).
Value* add_bias(NodeImport& n, Value* x, size_t input) {
  if (!n.has(input)) return x;
  Value* bias = n.input(input);
  if (bias->type.rank() != 1) n.fail("its bias {} should be a vector", bias->type.str());
  Shape shape{bias->type.shape[0]};
  for (int i = 2; i < x->type.rank(); ++i) shape.push_back(1);
  return n.add(op::add, {x, n.reshape(bias, shape)});
}

}  // namespace

Value* convolve(NodeImport& n, Value* data, Value* weight) {
  Window window = read_window(n, kernel_of(n, weight->type), data->type);
  auto attrs = std::make_shared<ConvAttrs>();
  const Dim channels = weight->type.shape[0];
  if (!channels.is_constant()) n.unsupported(UnsupportedKind::kRunTimeValue, "dimensions of its weight");
  attrs->channels = channels.value();
  set_window(*attrs, window);
  attrs->groups = n.integer("group", 1);
  return n.add(nn::conv, {data, weight}, attrs);
}

Value* convolve_inputs(NodeImport& n) {
  return add_bias(n, convolve(n, n.input(0), n.input(1)), 2);
}

namespace {

void convert_conv(NodeImport& n) {
  n.set(0, convolve_inputs(n));
}

/// `pads` is the input that has its pads, begins and then ends, if there is one, and `bias` that of its bias.
void conv_transpose(NodeImport& n, std::optional<size_t> pads, size_t bias) {
  bool automatic = n.text("auto_pad", "NOTSET") != "NOTSET";
  Window window = read_window(n, kernel_of(n, n.type(1)), n.type(0));
  size_t count = window.kernel.size();
  if (pads && n.has(*pads)) {
    window.padding = n.dims(*pads, "pads");
    check_padding(n, window.padding, count);
  }
  auto attrs = std::make_shared<ConvTransposeAttrs>();
  set_window(*attrs, window);
  attrs->groups = n.integer("group", 1);
  attrs->output_padding = n.integer_list("output_padding");
  if (attrs->output_padding.empty()) attrs->output_padding.assign(count, 0);
  if (attrs->output_padding.size() != count) n.fail("its output_padding should have {} entries", count);
  std::vector<int64_t> shape = n.integer_list("output_shape");
  if (shape.size() == count + 2) shape.erase(shape.begin(), shape.begin() + 2);
  std::string mode = n.text("auto_pad", "NOTSET");
  Shape data = n.type(0).shape;
  for (size_t i = 0; i < count; ++i) {
    bool same = automatic && mode != "VALID";
    if (mode == "VALID") attrs->padding[i] = attrs->padding[count + i] = 0;
    if (shape.empty() && !same) continue;
    if (!shape.empty() && shape.size() != count) n.fail("its output_shape should have {} entries", count);
    // The total padding follows from the extent wanted; definition of ConvTranspose.
    Dim wanted = shape.empty() ? data[2 + i] * window.strides[i] : Dim(shape[i]);
    Dim full = (data[2 + i] - 1) * window.strides[i] + attrs->output_padding[i] +
               ((window.kernel[i] - 1) * window.dilations[i] + 1);
    Dim total = full - wanted;
    // Where the result is larger than the windows reach there are zeros at the end.
    if (total.is_constant() && total.value() < 0) {
      attrs->output_padding[i] -= total.value();
      total = 0;
    }
    const Dim cut = larger(total, 0), half = floordiv(cut, 2);
    bool more_at_begin = mode != "SAME_UPPER";
    attrs->padding[i] = more_at_begin ? cut - half : half;
    attrs->padding[count + i] = total - attrs->padding[i];  // negative where that depends on an open extent
  }
  n.set(0, add_bias(n, n.add(nn::conv_transpose, {n.input(0), n.input(1)}, attrs), bias));
}

void convert_conv_transpose(NodeImport& n) {
  conv_transpose(n, std::nullopt, 2);
}

void convert_conv_transpose_with_dynamic_pads(NodeImport& n) {
  conv_transpose(n, 2, 3);
}

}  // namespace

void add_conv_converters(ConverterTable& table) {
  table.push_back({"Conv", 1, convert_conv});
  table.push_back({"ConvTranspose", 1, convert_conv_transpose});
  table.push_back({"ConvTransposeWithDynamicPads", 1, convert_conv_transpose_with_dynamic_pads, kMicrosoft});
}

}  // namespace gantry
