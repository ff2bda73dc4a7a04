#include "host/onnx/matrix_product.h"

#include <numeric>

#include "host/ops/dense.h"
#include "host/ops/movement.h"

namespace gantry {
namespace {

Value* transposed(NodeImport& n, Value* x) {
  std::vector<int64_t> axes(x->type.shape.size());
  std::iota(axes.begin(), axes.end(), int64_t{0});
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return n.transpose(x, axes);
}

/// x (…, K) times a constant matrix (K, N).
Value* dense(NodeImport& n, Value* x, Value* weight) {
  auto attrs = std::make_shared<DenseAttrs>();
  attrs->units = weight->type.shape[1].value();
  return n.add(nn::dense, {x, weight}, attrs);
}

}  // namespace

Value* matrix_product(NodeImport& n, Value* a, Value* b, bool transpose_a, bool transpose_b) {
  const int rank_a = a->type.rank(), rank_b = b->type.rank();
  if (rank_a == 0 || rank_b == 0) n.fail("does not take scalars");
  transpose_a = transpose_a && rank_a > 1;
  transpose_b = transpose_b && rank_b > 1;
  if (is_dense_weight(*b, transpose_b))
    return dense(n, transpose_a ? transposed(n, a) : a, transpose_b ? transposed(n, b) : b);
  // Vectors become matrices of one row or column, and the result loses that dimension again.
  if (rank_a == 1) a = n.reshape(a, {1, a->type.shape[0]});
  if (rank_b == 1) b = n.reshape(b, {b->type.shape[0], 1});
  auto attrs = std::make_shared<MatmulAttrs>();
  attrs->transpose_a = transpose_a;
  attrs->transpose_b = transpose_b;
  Value* y = n.add(op::matmul, {a, b}, attrs);
  Shape shape = y->type.shape;
  if (rank_b == 1) shape.pop_back();
  if (rank_a == 1) shape.erase(shape.end() - (rank_b == 1 ? 1 : 2));
  return n.reshape(y, shape);
}

}  // namespace gantry
