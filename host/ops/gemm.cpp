#include "host/ops/gemm.h"

#include "host/ops/support.h"

namespace gantry::ops {

Expr flatten(const std::vector<Expr>& index, const std::vector<Expr>& extents) {
  if (index.empty()) return 0;
  Expr position = index[0];
  for (size_t i = 1; i < index.size(); ++i) position = position * extents[i] + index[i];
  return position;
}

std::vector<Expr> unflatten(const Expr& position, const std::vector<Expr>& extents) {
  std::vector<Expr> index(extents.size());
  Expr rest = position;
  for (size_t i = extents.size(); i-- > 1;) {
    index[i] = mod(rest, extents[i]);
    rest = floordiv(rest, extents[i]);
  }
  if (!index.empty()) index[0] = rest;
  return index;
}

Tensor gemm(const Tensor& a, const Tensor& b) {
  auto k = reduce_axis(0, a.shape().back(), "k");
  std::vector<Expr> shape(a.shape().begin(), a.shape().end() - 1);
  shape.push_back(b.shape().back());
  auto body = [&](const std::vector<Expr>& i) {
    std::vector<Expr> left(i.begin(), i.end() - 1), right(i.begin(), i.end() - 2);
    left.push_back(k->var);
    right.insert(right.end(), {k->var, i.back()});
    return sum(widen(a(left)) * widen(b(right)), {k});
  };
  return compute(shape, body, "gemm", Role::kGemm);
}

}  // namespace gantry::ops
