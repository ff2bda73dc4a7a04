// linalg.det by Gaussian elimination with partial pivoting: the product of the pivots, with the sign of the
// exchanges.
#include "host/ops/det.h"

#include "host/loops/stmt.h"
#include "host/ops/families.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

using ops::input_type;

std::vector<TensorType> infer_det(const Node& node, Function& function) {
  const TensorType& x = input_type(node, 0);
  ops::require_float(node, 0);
  ops::require(x.rank() >= 2, "the data {} must be matrices", x.str());
  const size_t rank = x.shape.size();
  ops::unify(x.shape[rank - 2], x.shape[rank - 1], function, node, "rows and columns");
  return {{x.dtype, {x.shape.begin(), x.shape.end() - 2}}};
}

struct Elimination {
  DType dtype, wide;
  Expr count, size;
};

/// One matrix, in `work` from `base` on.
void emit_matrix(LoopBuilder& b, const Elimination& e, const Buffer& work, const Expr& matrix) {
  const Expr base = matrix * e.size * e.size;
  const auto at = [&](const Expr& row, const Expr& column) { return base + row * e.size + column; };
  const Buffer product = b.local("product", e.wide, 1), pivot = b.local("pivot", DType::kI64, 1);
  b.loop("element", e.size * e.size,
         [&](const Expr& i) { b.emit(store(work, base + i, ops::widen(load(b.input(0), base + i)))); });
  b.emit(store(product, 0, float_imm(e.wide, 1)));
  const auto size_of = [&](const Expr& row, const Expr& column) {
    return call(MathFn::kAbs, {load(work, at(row, column))});
  };
  b.loop("k", e.size, [&](const Expr& k) {
    b.emit(store(pivot, 0, k));
    b.loop("row", e.size - k - 1, [&](const Expr& below) {
      const Expr row = k + 1 + below;
      b.when(gt(size_of(row, k), size_of(load(pivot, 0), k)), [&] { b.emit(store(pivot, 0, row)); });
    });
    b.when(ne(load(pivot, 0), k), [&] {
      b.loop("column", e.size, [&](const Expr& column) {
        b.let("held", load(work, at(k, column)), [&](const Expr& held) {
          b.emit(store(work, at(k, column), load(work, at(load(pivot, 0), column))));
          b.emit(store(work, at(load(pivot, 0), column), held));
        });
      });
      b.emit(store(product, 0, -load(product, 0)));
    });
    b.let("top", load(work, at(k, k)), [&](const Expr& top) {
      b.emit(store(product, 0, load(product, 0) * top));
      // Below a pivot of 0 there is nothing but zeros.
      b.when(ne(top, float_imm(e.wide, 0)), [&] {
        b.loop("row", e.size - k - 1, [&](const Expr& below) {
          const Expr row = k + 1 + below;
          b.let("factor", load(work, at(row, k)) / top, [&](const Expr& factor) {
            b.loop("column", e.size - k - 1, [&](const Expr& right) {
              const Expr column = k + 1 + right;
              b.emit(store(work, at(row, column),
                           load(work, at(row, column)) - factor * load(work, at(k, column))));
            });
          });
        });
      });
    });
  });
  b.emit(store(b.result(0), matrix, cast(e.dtype, load(product, 0))));
}

std::vector<Tensor> compute_det(const Node& node, const std::vector<Tensor>& in) {
  Elimination e{in[0].dtype(), ops::widened(in[0].dtype()), 1, in[0].shape().back()};
  for (size_t d = 0; d + 2 < in[0].shape().size(); ++d) e.count = e.count * in[0].shape()[d];
  const auto on_cpu = [e](LoopBuilder& b) {
    const Buffer work = b.scratch("work", e.wide, e.count * e.size * e.size);
    b.loop(
        "matrix", e.count, [&](const Expr& matrix) { emit_matrix(b, e, work, matrix); }, LoopKind::kParallel);
  };
  const auto on_gpu = [e](LoopBuilder& b) {
    const Buffer work = b.scratch("work", e.wide, e.count * e.size * e.size);
    b.launch_flat(e.count, [&](const Expr& matrix) { emit_matrix(b, e, work, matrix); });
  };
  return extern_kernel(in, {to_exprs(node.result()->type.shape)}, {e.dtype}, on_cpu, "det", on_gpu);
}

}  // namespace

void add_det_ops(OpSet& set) {
  OpDef op = ops::define(linalg::det, FusionClass::kOpaque, LayoutBehaviour::kNone, {"data"});
  op.infer = infer_det;
  op.compute = compute_det;
  set.add(std::move(op));
}

}  // namespace gantry
