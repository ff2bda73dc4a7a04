// Derivatives of convolutions: by the data the transposed one, by the weight a convolution of the data with
// the adjoint as the window, in which strides and dilations have changed places.
#include "host/onnx/gradient_window.h"
#include "host/ops/conv.h"

namespace gantry {
namespace {

template <typename AttrsType>
Windows windows_of(const AttrsType& attrs) {
  return {{attrs.kernel, attrs.strides, attrs.dilations, attrs.padding}, attrs.groups};
}

/// A convolution of plain layout.
Term convolution(const Pullback& back, const Term& data, const Term& weight, const Windows& windows) {
  const auto channels = weight.dim(0).constant();
  if (!channels) back.refuse("for channels whose number is only known when the model runs");
  auto attrs = std::make_shared<ConvAttrs>();
  attrs->channels = *channels;
  set_window(*attrs, windows);
  attrs->groups = windows.groups;
  return {data.node(), data.node().add(nn::conv, {data, weight}, attrs)};
}

/// (N, groups * C, …) as (C, groups * N, …): what is summed over becomes the channels of each group.
Term samples_as_channels(const Term& x, int64_t groups) {
  const Dim samples = x.dim(0), channels = floordiv(x.dim(1), groups);
  Shape apart{samples, groups, channels}, joined{channels, samples * groups};
  std::vector<int64_t> axes{2, 1, 0};
  for (int64_t d = 2; d < x.rank(); ++d) {
    apart.push_back(x.dim(d));
    joined.push_back(x.dim(d));
    axes.push_back(d + 1);
  }
  return x.reshaped(std::move(apart)).transposed(std::move(axes)).reshaped(std::move(joined));
}

std::vector<int64_t> first_two_swapped(int rank) {
  std::vector<int64_t> axes{1, 0};
  for (int64_t d = 2; d < rank; ++d) axes.push_back(d);
  return axes;
}

/// Of a convolution's weight (O, C / groups, kernel…), for data (N, C, …) and the adjoint (N, O, windows…) of
/// its result.
Term weight_adjoint(Pullback& back, const Term& data, const Term& adjoint, const Windows& windows) {
  Windows turned = windows;
  for (size_t s = 0; s < windows.kernel.size(); ++s) {
    const auto extent = adjoint.shape()[s + 2].constant();
    if (!extent) back.refuse("by its weight, for images of a size that is only known when the model runs");
    turned.kernel[s] = *extent;
  }
  std::swap(turned.strides, turned.dilations);
  // (N, O, …) as (O, N, …), whose groups of channels O are those of the weight.
  const Term window = adjoint.transposed(first_two_swapped(adjoint.rank()));
  Term sums = convolution(back, samples_as_channels(data, windows.groups), window,
                          turned);  // (C / groups, O, kernel…)
  for (size_t s = 0; s < windows.kernel.size(); ++s)
    sums = sums.sliced(static_cast<int64_t>(s) + 2, 0, windows.kernel[s]);  // there may be room for more
  return sums.transposed(first_two_swapped(sums.rank()));
}

void back_through_conv(Pullback& back) {
  const Windows windows = windows_of(back.attrs<ConvAttrs>());
  const Term data = back.input(0), weight = back.input(1), adjoint = back.adjoint();
  if (back.wants(0)) back.give(0, spread_windows(adjoint, weight, windows, spatial(data)));
  if (back.wants(1)) back.give(1, weight_adjoint(back, data, adjoint, windows));
}

void back_through_conv_transpose(Pullback& back) {
  const Windows windows = windows_of(back.attrs<ConvTransposeAttrs>());
  for (const Dim& amount : windows.padding) {
    if (amount.constant().value_or(0) < 0) back.refuse("with padding below 0");
  }
  const Term data = back.input(0), weight = back.input(1), adjoint = back.adjoint();
  if (back.wants(0)) {
    Term share = convolution(back, adjoint, weight, windows);
    for (int64_t d = 2; d < data.rank(); ++d) share = share.sliced(d, 0, data.dim(d));
    back.give(0, share);
  }
  // The data are to the result what a convolution's result is to its data.
  if (back.wants(1)) back.give(1, weight_adjoint(back, adjoint, data, windows));
}

}  // namespace

Term spread_windows(const Term& adjoint, const Term& weight, const Windows& windows, const Shape& extents) {
  const size_t axes = windows.kernel.size();
  auto attrs = std::make_shared<ConvTransposeAttrs>();
  set_window(*attrs, windows);
  attrs->groups = windows.groups;
  // Elements behind the last window; where their number is not known, as many as there can be are computed
  // and cut off.
  for (size_t s = 0; s < axes; ++s) {
    const Dim reach = (adjoint.shape()[s + 2] - 1) * windows.strides[s] +
                      ((windows.kernel[s] - 1) * windows.dilations[s] + 1) - windows.padding[s] -
                      windows.padding[axes + s];
    const Dim missing = extents[s] - reach;
    attrs->output_padding.push_back(missing.constant().value_or(windows.strides[s] - 1));
  }
  Term result(adjoint.node(), adjoint.node().add(nn::conv_transpose, {adjoint, weight}, attrs));
  for (size_t s = 0; s < axes; ++s) result = result.sliced(static_cast<int64_t>(s) + 2, 0, extents[s]);
  return result;
}

void add_conv_gradients(GradientTable& table) {
  table.push_back({&nn::conv, back_through_conv});
  table.push_back({&nn::conv_transpose, back_through_conv_transpose});
}

}  // namespace gantry
