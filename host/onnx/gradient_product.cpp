// Derivatives of matrix products.
#include "host/onnx/gradient.h"
#include "host/ops/dense.h"

namespace gantry {
namespace {

/// All rows of x as one matrix.
Term rows_of(const Term& x) {
  return x.reshaped({element_count({x.shape().begin(), x.shape().end() - 1}), x.dim(-1)});
}

void back_through_dense(Pullback& back) {
  const Term x = back.input(0), adjoint = rows_of(back.adjoint());
  if (back.wants(0)) back.give(0, product(adjoint, back.input(1), false, true).reshaped(x.shape()));
  if (back.wants(1)) back.give(1, product(rows_of(x), adjoint, true, false));
}

/// Y = A B, where an operand may be read transposed: dA = dY B^T, dB = A^T dY.
void back_through_matmul(Pullback& back) {
  const auto& attrs = back.attrs<MatmulAttrs>();
  const bool ta = attrs.transpose_a, tb = attrs.transpose_b;
  const Term a = back.input(0), b = back.input(1), adjoint = back.adjoint();
  if (back.wants(0)) back.give(0, ta ? product(b, adjoint, tb, true) : product(adjoint, b, false, !tb));
  if (back.wants(1)) back.give(1, tb ? product(adjoint, a, true, ta) : product(a, adjoint, !ta, false));
}

}  // namespace

void add_product_gradients(GradientTable& table) {
  table.push_back({&nn::dense, back_through_dense});
  table.push_back({&op::matmul, back_through_matmul});
}

}  // namespace gantry
