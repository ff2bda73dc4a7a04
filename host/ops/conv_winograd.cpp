// Winograd's minimal filtering for 3x3 windows, F(2x2, 3x3) and F(4x4, 3x3), after Lavin and Gray 2015.
//
// With the matrices below, a tile Y of m x m results of one pair of channels is
//   Y = A^T [ (G w G^T) * (B^T d B) ] A
// where d is the t x t data that the tile reads, t = m + 2, and * multiplies elementwise. Sums over input
// channels commute with A, so each of the t*t positions is one matrix product over channels.
#include "host/ops/conv_forms.h"
#include "host/ops/families.h"
#include "host/ops/gemm.h"
#include "host/ops/support.h"

namespace gantry {

bool fits_winograd(const ConvAttrs& a) {
  return a.kernel == std::vector<int64_t>{3, 3} && a.strides == std::vector<int64_t>{1, 1} &&
         a.dilations == std::vector<int64_t>{1, 1} && a.groups == 1;
}

namespace {

using Matrix = std::vector<std::vector<double>>;

struct Transforms {
  Matrix input, weight, output;  ///< B^T (t x t), G (t x 3), A^T (m x t)
};

const Transforms& transforms(int64_t tile) {
  static const Transforms kTwo{{{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}},
                               {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}},
                               {{1, 1, 1, 0}, {0, 1, -1, -1}}};
  static const Transforms kFour{
      {{4, 0, -5, 0, 1, 0},
       {0, -4, -4, 1, 1, 0},
       {0, 4, -4, -1, 1, 0},
       {0, -2, -1, 2, 1, 0},
       {0, 2, -1, -2, 1, 0},
       {0, 4, 0, -5, 0, 1}},
      {{1.0 / 4, 0, 0},
       {-1.0 / 6, -1.0 / 6, -1.0 / 6},
       {-1.0 / 6, 1.0 / 6, -1.0 / 6},
       {1.0 / 24, 1.0 / 12, 1.0 / 6},
       {1.0 / 24, -1.0 / 12, 1.0 / 6},
       {0, 0, 1}},
      {{1, 1, 1, 1, 1, 0}, {0, 1, -1, 2, -2, 0}, {0, 1, 1, 4, 4, 0}, {0, 1, -1, 8, -8, 1}}};
  return tile == 2 ? kTwo : kFour;
}

/// sum of coefficients[i] * element(i), written without the terms that vanish.
Expr combination(const std::vector<double>& coefficients, const std::function<Expr(int64_t)>& element) {
  Expr total;
  for (size_t i = 0; i < coefficients.size(); ++i) {
    double c = coefficients[i];
    if (c == 0) continue;
    Expr x = element(static_cast<int64_t>(i));
    double magnitude = c < 0 && total.get() ? -c : c;
    Expr term = magnitude == 1 ? x : magnitude == -1 ? -x : x * const_of(x.type().dtype, magnitude);
    total = !total ? term : c < 0 ? total - term : total + term;
  }
  return total;
}

/// Row `row` of the matrix times the vector `element`.
Expr matrix_row(const Matrix& matrix, const Expr& row, const std::function<Expr(int64_t)>& element) {
  Expr chosen = combination(matrix.back(), element);
  for (size_t r = matrix.size() - 1; r-- > 0;) {
    chosen = select(eq(row, static_cast<int64_t>(r)), combination(matrix[r], element), chosen);
  }
  return chosen;
}

/// Data of every tile after the transformation, (t*t, tiles, C).
Tensor transformed_input(const ConvAttrs& a, const Tensor& x, const std::vector<Expr>& tiles, int64_t m) {
  const int64_t t = m + 2;
  const Matrix& matrix = transforms(m).input;
  Expr count = tiles[0] * tiles[1] * tiles[2], channels = x.shape().back();
  auto patch_body = [&](const std::vector<Expr>& i) {
    std::vector<Expr> tile = ops::unflatten(i[2], tiles);
    Expr y = tile[1] * m + i[0] - Expr(a.padding[0]), z = tile[2] * m + i[1] - Expr(a.padding[1]);
    Expr inside = ge(y, 0) && lt(y, x.shape()[1]) && ge(z, 0) && lt(z, x.shape()[2]);
    return if_then_else(inside, ops::widen(x({tile[0], y, z, i[3]})), const_of(ops::widened(x.dtype()), 0));
  };
  Tensor patch = compute({t, t, count, channels}, patch_body, "winograd_patch", "winograd_patch");
  auto rows_body = [&](const std::vector<Expr>& i) {
    return matrix_row(matrix, i[0], [&](int64_t row) { return patch({row, i[1], i[2], i[3]}); });
  };
  Tensor rows = compute({t, t, count, channels}, rows_body, "winograd_rows", "winograd_rows");
  auto body = [&](const std::vector<Expr>& i) {
    Expr r = floordiv(i[0], t), s = mod(i[0], t);
    return matrix_row(matrix, s, [&](int64_t column) { return rows({r, column, i[1], i[2]}); });
  };
  return compute({t * t, count, channels}, body, "winograd_input", "winograd_input");
}

// --- nn.winograd_weight

std::vector<TensorType> infer_winograd_weight(const Node& node, Function&) {
  const TensorType& w = ops::input_type(node, 0);
  const int64_t tile = node.attrs_as<WinogradWeightAttrs>().tile;
  ops::require(tile == 2 || tile == 4, "there is no Winograd algorithm for tiles of {}", tile);
  ops::require(w.rank() == 4 && w.shape[2] == Dim(3) && w.shape[3] == Dim(3),
               "the weight {} should have the shape (O, I, 3, 3)", w.str());
  ops::require_float(node, 0);
  return {{w.dtype, {(tile + 2) * (tile + 2), w.shape[1], w.shape[0]}}};
}

std::vector<Tensor> compute_winograd_weight(const Node& node, const std::vector<Tensor>& in) {
  const int64_t tile = node.attrs_as<WinogradWeightAttrs>().tile, t = tile + 2;
  const Matrix& matrix = transforms(tile).weight;
  const Tensor& w = in[0];
  const Expr &outputs = w.shape()[0], &inputs = w.shape()[1];
  auto rows_body = [&](const std::vector<Expr>& i) {
    return matrix_row(matrix, i[0], [&](int64_t row) {
      return cast(DType::kF64, w({i[3], i[2], row, i[1]}));
    });
  };
  Tensor rows = compute({t, 3, inputs, outputs}, rows_body, "winograd_weight_rows");
  auto body = [&](const std::vector<Expr>& i) {
    Expr r = floordiv(i[0], t), s = mod(i[0], t);
    return cast(w.dtype(), matrix_row(matrix, s, [&](int64_t column) {
                  return rows({r, column, i[1], i[2]});
                }));
  };
  return {compute(to_exprs(node.result()->type.shape), body, "winograd_weight")};
}

}  // namespace

Tensor conv_winograd(const Node& node, const ConvAttrs& a, const Tensor& x, const Tensor& weight) {
  const int64_t m = winograd_tile(a.algorithm), t = m + 2;
  const Matrix& matrix = transforms(m).output;
  std::vector<Expr> shape = to_exprs(node.result()->type.shape);
  std::vector<Expr> tiles{shape[0], floordiv(shape[1] + (m - 1), m), floordiv(shape[2] + (m - 1), m)};
  Tensor product = ops::gemm(transformed_input(a, x, tiles, m), weight);
  auto columns_body = [&](const std::vector<Expr>& i) {
    return matrix_row(matrix, i[0], [&](int64_t row) { return product({i[1] + row * t, i[2], i[3]}); });
  };
  Tensor columns =
      compute({m, t, product.shape()[1], shape[3]}, columns_body, "winograd_columns", "winograd_columns");
  auto body = [&](const std::vector<Expr>& i) {
    Expr tile = ops::flatten({i[0], floordiv(i[1], m), floordiv(i[2], m)}, tiles);
    return matrix_row(matrix, mod(i[2], m), [&](int64_t column) {
      return columns({mod(i[1], m), column, tile, i[3]});
    });
  };
  return compute(shape, body, "winograd_output", "winograd_output");
}

void add_winograd_ops(OpSet& set) {
  OpDef op = ops::define<WinogradWeightAttrs>("nn.winograd_weight", FusionClass::kOpaque,
                                              LayoutBehaviour::kNone, {"weight"});
  op.infer = infer_winograd_weight;
  op.compute = compute_winograd_weight;
  set.add(std::move(op));
}

}  // namespace gantry
