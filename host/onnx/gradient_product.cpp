// Derivatives of matrix products.
#include "host/onnx/gradient.h"
#include "host/ops/dense.h"

namespace gantry {
namespace {

void back_through_dense(Pullback& back) {
  const Term x = back.input(0), weight = back.input(1), adjoint = back.adjoint();
  if (back.wants(0)) back.give(0, product(adjoint, weight, false, true));
  if (!back.wants(1)) return;
  const Dim rows = element_count({x.shape().begin(), x.shape().end() - 1});
  back.give(1,
            product(x.reshaped({rows, x.dim(-1)}), adjoint.reshaped({rows, adjoint.dim(-1)}), true, false));
}

/// Y = A B, where an operand may be used transposed and a vector is a matrix of one row (A) or column (B):
/// dA = dY B^T, dB = A^T dY.
void back_through_matmul(Pullback& back) {
  const auto& attrs = back.attrs<MatmulAttrs>();
  const Term first = back.input(0), second = back.input(1);
  const bool is_row = first.rank() == 1, is_column = second.rank() == 1;
  const bool ta = attrs.transpose_a && !is_row, tb = attrs.transpose_b && !is_column;
  const Term a = is_row ? first.unsqueezed(0) : first, b = is_column ? second.unsqueezed(1) : second;
  Term adjoint = back.adjoint();
  if (is_column) adjoint = adjoint.unsqueezed(-1);
  if (is_row) adjoint = adjoint.unsqueezed(-2);
  const auto give = [&](size_t i, const Term& share, const Term& operand) {
    back.give(i, summed_to(share, operand.shape()).reshaped(back.input(i).shape()));
  };
  if (back.wants(0)) give(0, ta ? product(b, adjoint, tb, true) : product(adjoint, b, false, !tb), a);
  if (back.wants(1)) give(1, tb ? product(adjoint, a, true, ta) : product(a, adjoint, !ta, false), b);
}

}  // namespace

void add_product_gradients(GradientTable& table) {
  table.push_back({&nn::dense, back_through_dense});
  table.push_back({&op::matmul, back_through_matmul});
}

}  // namespace gantry
