// Derivatives of poolings.
#include "host/onnx/gradient_window.h"
#include "host/ops/conv.h"
#include "host/ops/elementwise.h"
#include "host/ops/pool.h"
#include "host/ops/scatter.h"

namespace gantry {
namespace {

/// The largest element of each window, the first of equal ones, has the window's adjoint.
void back_through_max_pool(Pullback& back) {
  const Term x = back.input(0), adjoint = back.adjoint();
  auto attrs = std::make_shared<PoolAttrs>(back.attrs<PoolAttrs>());
  const Term positions(back.import(), back.import().add(nn::max_positions, {x}, attrs));
  const Dim count = element_count(adjoint.shape());
  // A window that lies in the padding has no position.
  const Term share = where(less(positions, positions.number_like(0)), 0, adjoint).reshaped({count});
  const Dim total = element_count(x.shape());
  back.give(0, spread(share, positions.reshaped({count}), 0, total).reshaped(x.shape()));
}

/// The padding that the windows reach into: where their number is rounded up, the last ones reach further.
Windows windows_of(const Pullback& back) {
  const auto& attrs = back.attrs<PoolAttrs>();
  const size_t axes = attrs.kernel.size();
  Windows windows{{attrs.kernel, attrs.strides, attrs.dilations, attrs.padding}};
  for (size_t s = 0; s < axes && attrs.ceil_mode; ++s) {
    const Dim &in = back.input(0).shape()[s + 2], &out = back.result().shape()[s + 2];
    const Dim reach = (out - 1) * attrs.strides[s] + ((attrs.kernel[s] - 1) * attrs.dilations[s] + 1);
    windows.padding[axes + s] = max(attrs.padding[axes + s], reach - in - attrs.padding[s]);
  }
  return windows;
}

Term ones(const Term& like, const Shape& extents) {
  Shape shape{1, 1};
  shape.insert(shape.end(), extents.begin(), extents.end());
  return Term::filled(like.node(), like.dtype(), 1, std::move(shape));
}
Term kernel_of_ones(const Term& like, const Windows& windows) {
  return ones(like, Shape(windows.kernel.begin(), windows.kernel.end()));
}

/// Adds each window's element to all elements of x in the window.
Term over_windows(const Term& adjoint, const Windows& windows, const Term& x) {
  Shape planes{x.dim(0) * x.dim(1), 1};
  const Shape extents = spatial(adjoint);
  planes.insert(planes.end(), extents.begin(), extents.end());
  const Term spread_out =
      spread_windows(adjoint.reshaped(std::move(planes)), kernel_of_ones(x, windows), windows, spatial(x));
  return spread_out.reshaped(x.shape());
}

/// How many elements each window averages, (1, 1, windows…): a convolution of ones.
Term window_counts(const Pullback& back, const Windows& windows) {
  const auto& attrs = back.attrs<PoolAttrs>();
  const Term x = back.input(0);
  const size_t axes = attrs.kernel.size();
  auto conv = std::make_shared<ConvAttrs>();
  conv->channels = 1;
  set_window(*conv, windows);
  Shape counted = spatial(x);
  for (size_t s = 0; s < axes && attrs.count_include_pad; ++s) {
    counted[s] = counted[s] + attrs.padding[s] + attrs.padding[axes + s];
    conv->padding[s] = 0;
    conv->padding[axes + s] = windows.padding[axes + s] - attrs.padding[axes + s];
  }
  return {back.import(), back.import().add(nn::conv, {ones(x, counted), kernel_of_ones(x, windows)}, conv)};
}

void back_through_avg_pool(Pullback& back) {
  const Windows windows = windows_of(back);
  const Term share = back.adjoint() / window_counts(back, windows);
  back.give(0, over_windows(share, windows, back.input(0)));
}

/// y = (sum |x|^p)^(1/p): sign(x) |x|^(p-1) y^(1-p), 0 where y is 0.
void back_through_lp_pool(Pullback& back) {
  const Windows windows = windows_of(back);
  const auto power = static_cast<double>(back.attrs<PoolAttrs>().p - 1);
  const Term x = back.input(0), y = back.result();
  const Term is_zero = equal(y, y.number_like(0));
  const auto raised = [&](const Term& base) {
    return power == 1 ? base : base.apply(op::power, base.number_like(power));
  };
  Term share = back.adjoint(), slope = x.apply(op::sign);
  if (power != 0) {
    share = where(is_zero, 0, share / raised(where(is_zero, 1, y)));
    slope = slope * raised(abs(x));
  }
  back.give(0, slope * over_windows(share, windows, x));
}

}  // namespace

void add_pool_gradients(GradientTable& table) {
  table.push_back({&nn::max_pool, back_through_max_pool});
  table.push_back({&nn::avg_pool, back_through_avg_pool});
  table.push_back({&nn::lp_pool, back_through_lp_pool});
}

}  // namespace gantry
