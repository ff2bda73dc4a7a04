// Gaussian elimination with partial pivoting: linalg.det is the product of the pivots, with the sign of the
// exchanges; linalg.inverse what the identity becomes when its rows are treated as those of the matrix, until
// that is the identity (Gauss and Jordan).
#include "host/ops/det.h"

#include <functional>

#include "host/loops/stmt.h"
#include "host/ops/families.h"
#include "host/ops/support.h"

namespace gantry {
namespace {

using ops::input_type;

void require_square(const Node& node, Function& function) {
  const TensorType& x = input_type(node, 0);
  ops::require_float(node, 0);
  ops::require(x.rank() >= 2, "the data {} must be matrices", x.str());
  const size_t rank = x.shape.size();
  ops::unify(x.shape[rank - 2], x.shape[rank - 1], function, node, "rows and columns");
}

std::vector<TensorType> infer_det(const Node& node, Function& function) {
  require_square(node, function);
  const TensorType& x = input_type(node, 0);
  return {{x.dtype, {x.shape.begin(), x.shape.end() - 2}}};
}

std::vector<TensorType> infer_inverse(const Node& node, Function& function) {
  require_square(node, function);
  return {input_type(node, 0)};
}

struct Elimination {
  DType dtype, wide;
  Expr count, size;
};

/// A matrix in `work` from `base` on.
struct Rows {
  Buffer work;
  Expr base, size;

  Expr at(const Expr& row, const Expr& column) const { return base + row * size + column; }
  Expr element(const Expr& row, const Expr& column) const { return load(work, at(row, column)); }
};

void copy_input(LoopBuilder& b, const Rows& rows) {
  b.loop("element", rows.size * rows.size, [&](const Expr& i) {
    b.emit(store(rows.work, rows.base + i, ops::widen(load(b.input(0), rows.base + i))));
  });
}

/// Puts the row of the largest element of column k, of the rows from k on, into `pivot`.
void find_pivot(LoopBuilder& b, const Rows& rows, const Expr& k, const Buffer& pivot) {
  const auto size_of = [&](const Expr& row) { return call(MathFn::kAbs, {rows.element(row, k)}); };
  b.emit(store(pivot, 0, k));
  b.loop("row", rows.size - k - 1, [&](const Expr& below) {
    const Expr row = k + 1 + below;
    b.when(gt(size_of(row), size_of(load(pivot, 0))), [&] { b.emit(store(pivot, 0, row)); });
  });
}

void exchange_rows(LoopBuilder& b, const Rows& rows, const Expr& k, const Buffer& pivot) {
  b.loop("column", rows.size, [&](const Expr& column) {
    b.let("held", rows.element(k, column), [&](const Expr& held) {
      b.emit(store(rows.work, rows.at(k, column), rows.element(load(pivot, 0), column)));
      b.emit(store(rows.work, rows.at(load(pivot, 0), column), held));
    });
  });
}

void emit_det(LoopBuilder& b, const Elimination& e, const Buffer& work, const Expr& matrix) {
  const Rows rows{work, matrix * e.size * e.size, e.size};
  const Buffer product = b.local("product", e.wide, 1), pivot = b.local("pivot", DType::kI64, 1);
  copy_input(b, rows);
  b.emit(store(product, 0, float_imm(e.wide, 1)));
  b.loop("k", e.size, [&](const Expr& k) {
    find_pivot(b, rows, k, pivot);
    b.when(ne(load(pivot, 0), k), [&] {
      exchange_rows(b, rows, k, pivot);
      b.emit(store(product, 0, -load(product, 0)));
    });
    b.let("top", rows.element(k, k), [&](const Expr& top) {
      b.emit(store(product, 0, load(product, 0) * top));
      // Below a pivot of 0 there is nothing but zeros.
      b.when(ne(top, float_imm(e.wide, 0)), [&] {
        b.loop("row", e.size - k - 1, [&](const Expr& below) {
          const Expr row = k + 1 + below;
          b.let("factor", rows.element(row, k) / top, [&](const Expr& factor) {
            b.loop("column", e.size - k - 1, [&](const Expr& right) {
              const Expr column = k + 1 + right;
              b.emit(store(work, rows.at(row, column),
                           rows.element(row, column) - factor * rows.element(k, column)));
            });
          });
        });
      });
    });
  });
  b.emit(store(b.result(0), matrix, cast(e.dtype, load(product, 0))));
}

/// Divides row k of both by the pivot, and takes as much of it from all other rows as their element of column
/// k is.
void clear_column(LoopBuilder& b, const Rows& rows, const Rows& inverse, const Expr& k) {
  const auto each = [&](const std::function<Expr(const Rows&, const Expr& column)>& value, const Expr& row) {
    b.loop("column", rows.size, [&](const Expr& column) {
      for (const Rows* both : {&rows, &inverse})
        b.emit(store(both->work, both->at(row, column), value(*both, column)));
    });
  };
  b.let("top", rows.element(k, k), [&](const Expr& top) {
    each([&](const Rows& one, const Expr& column) { return one.element(k, column) / top; }, k);
  });
  b.loop("row", rows.size, [&](const Expr& row) {
    b.when(ne(row, k), [&] {
      b.let("factor", rows.element(row, k), [&](const Expr& factor) {
        each([&](const Rows& one,
                 const Expr& column) { return one.element(row, column) - factor * one.element(k, column); },
             row);
      });
    });
  });
}

/// `work` has the matrices, then their inverses.
void emit_inverse(LoopBuilder& b, const Elimination& e, const Buffer& work, const Expr& matrix) {
  const Expr base = matrix * e.size * e.size;
  const Rows rows{work, base, e.size}, inverse{work, e.count * e.size * e.size + base, e.size};
  const Buffer pivot = b.local("pivot", DType::kI64, 1);
  copy_input(b, rows);
  b.loop("row", e.size, [&](const Expr& row) {
    b.loop("column", e.size, [&](const Expr& column) {
      b.emit(store(work, inverse.at(row, column),
                   select(eq(row, column), float_imm(e.wide, 1), float_imm(e.wide, 0))));
    });
  });
  b.loop("k", e.size, [&](const Expr& k) {
    find_pivot(b, rows, k, pivot);
    b.when(ne(load(pivot, 0), k), [&] {
      exchange_rows(b, rows, k, pivot);
      exchange_rows(b, inverse, k, pivot);
    });
    clear_column(b, rows, inverse, k);
  });
  b.loop("element", e.size * e.size, [&](const Expr& i) {
    b.emit(store(b.result(0), base + i, cast(e.dtype, load(work, inverse.base + i))));
  });
}

using EmitMatrix = void (*)(LoopBuilder&, const Elimination&, const Buffer& work, const Expr& matrix);

/// Each matrix by itself, in a space of `copies` times its size.
std::vector<Tensor> compute_matrices(const Node& node, const std::vector<Tensor>& in, EmitMatrix emit,
                                     int64_t copies, const char* name) {
  Elimination e{in[0].dtype(), ops::widened(in[0].dtype()), 1, in[0].shape().back()};
  for (size_t d = 0; d + 2 < in[0].shape().size(); ++d) e.count = e.count * in[0].shape()[d];
  const auto work_of = [e, copies](LoopBuilder& b) {
    return b.scratch("work", e.wide, e.count * e.size * e.size * copies);
  };
  const auto on_cpu = [=](LoopBuilder& b) {
    const Buffer work = work_of(b);
    b.loop(
        "matrix", e.count, [&](const Expr& matrix) { emit(b, e, work, matrix); }, LoopKind::kParallel);
  };
  const auto on_gpu = [=](LoopBuilder& b) {
    const Buffer work = work_of(b);
    b.launch_flat(e.count, [&](const Expr& matrix) { emit(b, e, work, matrix); });
  };
  return extern_kernel(in, {ops::result_shape(node)}, {e.dtype}, on_cpu, name, on_gpu);
}

}  // namespace

void add_det_ops(OpSet& set) {
  OpDef det = ops::define(linalg::det, FusionClass::kOpaque, LayoutBehaviour::kNone, {"data"});
  det.infer = infer_det;
  det.compute = [](const Node& node, const std::vector<Tensor>& in) {
    return compute_matrices(node, in, emit_det, 1, "det");
  };
  set.add(std::move(det));

  OpDef inverse = ops::define(linalg::inverse, FusionClass::kOpaque, LayoutBehaviour::kNone, {"data"});
  inverse.infer = infer_inverse;
  inverse.compute = [](const Node& node, const std::vector<Tensor>& in) {
    return compute_matrices(node, in, emit_inverse, 2, "inverse");
  };
  set.add(std::move(inverse));
}

}  // namespace gantry
