// Matrix products.
#include "host/onnx/converters.h"
#include "host/onnx/matrix_product.h"
#include "host/ops/det.h"
#include "host/ops/elementwise.h"

namespace gantry {
namespace {

void convert_matmul(NodeImport& n) {
  n.set(0, matrix_product(n, n.input(0), n.input(1)));
}

Value* scaled(NodeImport& n, Value* x, double factor) {
  return factor == 1 ? x : n.add(op::multiply, {x, n.scalar(x->type.dtype, factor)});
}

}  // namespace

Value* general_product(NodeImport& n) {
  Value *a = n.input(0), *b = n.input(1);
  if (a->type.rank() != 2 || b->type.rank() != 2)
    n.fail("needs matrices, not {} and {}", a->type.str(), b->type.str());
  Value* y = matrix_product(n, a, b, n.integer("transA", 0) != 0, n.integer("transB", 0) != 0);
  y = scaled(n, y, n.number("alpha", 1));
  if (n.has(2)) y = n.add(op::add, {y, scaled(n, n.input(2), n.number("beta", 1))});
  return y;
}

void add_matmul_converters(ConverterTable& table) {
  table.push_back({"MatMul", 1, convert_matmul});
  table.push_back({"Gemm", 1, [](NodeImport& n) { n.set(0, general_product(n)); }});
  table.push_back({"Det", 11, [](NodeImport& n) { n.set(0, n.add(linalg::det, {n.input(0)})); }});
  table.push_back(
      {"Inverse", 1, [](NodeImport& n) { n.set(0, n.add(linalg::inverse, {n.input(0)})); }, kMicrosoft});
}

}  // namespace gantry
