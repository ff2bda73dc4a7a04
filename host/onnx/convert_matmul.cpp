// Matrix products.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "host/onnx/converters.h"
#include "host/onnx/matrix_product.h"
#include "host/ops/det.h"
#include "host/ops/elementwise.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

void convert_matmul(NodeImport& n) {
  n.set(0, matrix_product(n, n.input(0), n.input(1)));
}

Value* scaled(NodeImport& n, Value* x, double factor) {
  return factor == 1 ? x : n.add(op::multiply, {x, n.scalar(x->type.dtype, factor)});
}

/// Whether integers of that type are multiplied by a number of their own type: not by fractions, and unsigned
/// ones not by negative numbers.
bool is_factor_of(DType dtype, double factor) {
  return std::trunc(factor) == factor && (factor >= 0 || is_signed_int(dtype));
}

/// The type in which a product of that type is scaled and added to before it is rounded to its own: a wider
/// one of short floats, of which alpha and beta often are no numbers, and of integers that are scaled by
/// fractions.
DType type_of_scaling(DType product, double alpha, double beta) {
  if (alpha == 1 && (beta == 0 || beta == 1)) return product;
  if (is_float(product)) return ops::widened(product);
  return is_factor_of(product, alpha) && is_factor_of(product, beta) ? product : DType::kF64;
}

/// What Gemm adds has the type of its product, and at most its dimensions. A user error otherwise.
void check_addend(const NodeImport& n, const TensorType& c, const TensorType& product) {
  const auto fits = [](const Dim& own, const Dim& wanted) {
    return own == Dim(1) || !provably_different(own, wanted);
  };
  const bool is_taken = c.dtype == product.dtype && c.rank() <= product.rank() &&
                        std::equal(c.shape.rbegin(), c.shape.rend(), product.shape.rbegin(), fits);
  if (!is_taken) n.fail("does not add {} to a product of {}", c.str(), product.str());
}

/// An operand of FusedMatMul; `batch_behind` names the attribute by which its first axis is the rows' of its
/// matrices.
Value* operand(NodeImport& n, size_t i, const char* batch_behind) {
  Value* x = n.input(i);
  if (n.integer(batch_behind, 0) == 0) return x;
  const int rank = x->type.rank();
  if (rank < 3)
    n.fail("its {} needs an operand of 3 dimensions or more, not {}", batch_behind, x->type.str());
  std::vector<int64_t> axes(static_cast<size_t>(rank) - 2);
  std::iota(axes.begin(), axes.end(), 1);
  axes.insert(axes.end(), {0, rank - 1});
  return n.transpose(x, axes);
}

}  // namespace

Value* general_product(NodeImport& n) {
  Value *a = n.input(0), *b = n.input(1);
  if (a->type.rank() != 2 || b->type.rank() != 2)
    n.fail("needs matrices, not {} and {}", a->type.str(), b->type.str());
  Value* y = matrix_product(n, a, b, n.integer("transA", 0) != 0, n.integer("transB", 0) != 0);
  const TensorType product = y->type;
  const double alpha = n.number("alpha", 1), beta = n.has(2) ? n.number("beta", 1) : 0;
  if (n.has(2)) check_addend(n, n.type(2), product);
  const DType wide = type_of_scaling(product.dtype, alpha, beta);
  y = scaled(n, n.cast(y, wide), alpha);
  // Of beta 0 nothing is read, as 0 times NaN is no 0.
  if (beta != 0) y = n.add(op::add, {y, scaled(n, n.cast(n.input(2), wide), beta)});
  return n.cast(y, product.dtype);
}

Value* scaled_matrix_product(NodeImport& n) {
  Value *a = operand(n, 0, "transBatchA"), *b = operand(n, 1, "transBatchB");
  const bool transpose_a = n.integer("transA", 0) != 0, transpose_b = n.integer("transB", 0) != 0;
  Value* y = matrix_product(n, a, b, transpose_a, transpose_b);
  const double alpha = n.number("alpha", 1);
  const DType own = y->type.dtype;
  return n.cast(scaled(n, n.cast(y, type_of_scaling(own, alpha, 0)), alpha), own);
}

namespace {

void convert_fused_matmul(NodeImport& n) {
  n.set(0, scaled_matrix_product(n));
}

}  // namespace

void add_matmul_converters(ConverterTable& table) {
  table.push_back({"MatMul", 1, convert_matmul});
  table.push_back({"Gemm", 1, [](NodeImport& n) { n.set(0, general_product(n)); }});
  table.push_back({"Det", 11, [](NodeImport& n) { n.set(0, n.add(linalg::det, {n.input(0)})); }});
  table.push_back({"FusedMatMul", 1, convert_fused_matmul, kMicrosoft});
  table.push_back({"TransposeMatMul", 1, convert_fused_matmul, kMicrosoft});  // its name before
  table.push_back(
      {"Inverse", 1, [](NodeImport& n) { n.set(0, n.add(linalg::inverse, {n.input(0)})); }, kMicrosoft});
}

}  // namespace gantry
