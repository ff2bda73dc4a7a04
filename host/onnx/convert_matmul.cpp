// Matrix products.
#include "host/onnx/converters.h"
#include "host/onnx/quantize.h"
#include "host/ops/dense.h"
#include "host/ops/det.h"
#include "host/ops/elementwise.h"

namespace gantry {
namespace {

/// x (…, K) times a constant matrix (K, N).
Value* dense(NodeImport& n, Value* x, Value* weight) {
  auto attrs = std::make_shared<DenseAttrs>();
  attrs->units = weight->type.shape[1].value();
  return n.add(nn::dense, {x, weight}, attrs);
}

Value* matmul(NodeImport& n, Value* a, Value* b, bool transpose_a, bool transpose_b) {
  auto attrs = std::make_shared<MatmulAttrs>();
  attrs->transpose_a = transpose_a;
  attrs->transpose_b = transpose_b;
  return n.add(op::matmul, {a, b}, attrs);
}

/// A matrix whose value is known when compiling, so that it can be packed.
bool is_weight(const Value* v) {
  return v->is_constant() && v->type.rank() == 2 && v->type.shape[1].value() > 0;
}

void convert_matmul(NodeImport& n) {
  Value *a = n.input(0), *b = n.input(1);
  if (a->type.rank() > 0 && is_weight(b)) return n.set(0, dense(n, a, b));
  n.set(0, matrix_product(n, a, b));
}

Value* scaled(NodeImport& n, Value* x, double factor) {
  return factor == 1 ? x : n.add(op::multiply, {x, n.scalar(x->type.dtype, factor)});
}

void convert_gemm(NodeImport& n) {
  Value *a = n.input(0), *b = n.input(1);
  if (a->type.rank() != 2 || b->type.rank() != 2)
    n.fail("needs matrices, not {} and {}", a->type.str(), b->type.str());
  bool transpose_a = n.integer("transA", 0) != 0, transpose_b = n.integer("transB", 0) != 0;
  Value* y = nullptr;
  bool weight = b->is_constant() && b->type.shape[0].value() > 0 && b->type.shape[1].value() > 0;
  if (weight) {
    if (transpose_a) a = n.transpose(a, {1, 0});
    y = dense(n, a, transpose_b ? n.transpose(b, {1, 0}) : b);
  } else {
    y = matmul(n, a, b, transpose_a, transpose_b);
  }
  y = scaled(n, y, n.number("alpha", 1));
  if (n.has(2)) y = n.add(op::add, {y, scaled(n, n.input(2), n.number("beta", 1))});
  n.set(0, y);
}

}  // namespace

void add_matmul_converters(ConverterTable& table) {
  table.push_back({"MatMul", 1, convert_matmul});
  table.push_back({"Gemm", 1, convert_gemm});
  table.push_back({"Det", 11, [](NodeImport& n) { n.set(0, n.add(linalg::det, {n.input(0)})); }});
}

}  // namespace gantry
