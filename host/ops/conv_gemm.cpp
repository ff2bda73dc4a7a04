// Convolution as a matrix product over unrolled windows.
#include <algorithm>

#include "host/ops/conv_forms.h"
#include "host/ops/gemm.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

bool all_one(const std::vector<int64_t>& values) {
  return std::all_of(values.begin(), values.end(), [](int64_t v) { return v == 1; });
}

/// Every result reads the data at its own position.
bool is_pointwise(const ConvAttrs& a) {
  return all_one(a.kernel) && all_one(a.strides) && all_zero(a.padding);
}

/// Extents of a result's rows: (N, spatial…).
std::vector<Expr> row_extents(const Node& node) {
  std::vector<Expr> shape = ops::result_shape(node);
  shape.pop_back();
  return shape;
}

/// The windows as rows of a matrix, ((g,) m, k).
Tensor unrolled_windows(const ConvAttrs& a, const Tensor& x, const std::vector<Expr>& rows,
                        const Expr& depth) {
  size_t n = a.spatial_rank();
  Expr channels = floordiv(x.shape().back(), a.groups);
  std::vector<Expr> taps;
  for (int64_t extent : a.kernel) taps.emplace_back(extent);
  taps.push_back(channels);
  Expr row_count = 1;
  for (const Expr& extent : rows) row_count = row_count * extent;
  auto body = [&](const std::vector<Expr>& i) {
    std::vector<Expr> row = ops::unflatten(i[i.size() - 2], rows), tap = ops::unflatten(i.back(), taps);
    std::vector<Expr> at{row[0]};
    Expr inside;
    for (size_t s = 0; s < n; ++s) {
      Expr p = row[s + 1] * a.strides[s] + tap[s] * a.dilations[s] - Expr(a.padding[s]);
      at.push_back(p);
      if (a.padding[s] == Dim(0) && a.padding[n + s] == Dim(0)) continue;
      Expr here = ge(p, 0) && lt(p, x.shape()[s + 1]);
      inside = inside ? inside && here : here;
    }
    at.push_back(a.groups > 1 ? i[0] * channels + tap.back() : tap.back());
    return inside ? if_then_else(inside, x(at), const_of(x.dtype(), 0)) : x(at);
  };
  std::vector<Expr> shape{row_count, depth};
  if (a.groups > 1) shape.insert(shape.begin(), a.groups);
  return compute(shape, body, is_pointwise(a) ? "gemm_operand" : "im2col");
}

}  // namespace

Tensor conv_gemm(const Node& node, const ConvAttrs& a, const Tensor& x, const Tensor& weight) {
  std::vector<Expr> rows = row_extents(node);
  Expr depth = weight.shape()[weight.shape().size() - 2];
  Tensor product = ops::gemm(unrolled_windows(a, x, rows, depth), weight);
  int64_t per_group = a.channels / a.groups;
  auto output = [&](const std::vector<Expr>& i) {
    Expr row = ops::flatten({i.begin(), i.end() - 1}, rows);
    if (a.groups == 1) return product({row, i.back()});
    return product({floordiv(i.back(), per_group), row, mod(i.back(), per_group)});
  };
  return compute(ops::result_shape(node), output, "gemm_output", Role::kGemmOutput);
}

}  // namespace gantry
