// nn.dense and matmul.
#include "host/ops/dense.h"

#include <fmt/format.h>

#include "host/ops/families.h"
#include "host/ops/fixed_point.h"
#include "host/ops/gemm.h"
#include "host/ops/support.h"
#include "host/ops/tiles.h"
#include "host/tensor/simplify.h"

namespace gantry {
namespace {

using ops::input_type;
using ops::require;

/// The shape of the words; checks everything but it.
Shape fixed_point_shape(const Node& node, const DenseAttrs& a, const TensorType& x) {
  const DenseForm& form = a.form;
  require(form.fixed_bits == 20 || form.fixed_bits == 24, "weights have 20 or 24 bits, not {}",
          form.fixed_bits);
  const FixedPointFormat format(form.fixed_bits);
  require(x.dtype == DType::kF32 && input_type(node, 1).dtype == DType::kI32 && form.tile_parts == 0 &&
              form.weight_block > 0 && form.weight_block % format.group == 0,
          "weights of {} bits are packed in i32, in blocks of a multiple of {}, for f32 data",
          form.fixed_bits, format.group);
  const Dim panels = ceildiv(Dim(a.units), form.weight_block);
  require(x.shape.back().is_constant(), "the depth of products with integers must be constant");
  const int64_t depth = x.shape.back().value(), chunk = fixed_point_chunk(depth);
  const TensorType ranges{DType::kF32, {panels, depth / chunk, form.weight_block}};
  require(ops::has_input(node, 2) && input_type(node, 2) == ranges, "weights of {} bits need the ranges {}",
          form.fixed_bits, ranges.str());
  return {panels, x.shape.back(), form.weight_block / format.group * format.words};
}

/// Whose sums are i32.
bool is_product_of_bytes(DType data, DType weight) {
  return data == DType::kU8 && weight == DType::kI8;
}

/// An operand's element as it is multiplied.
Expr factor(const Expr& x, DType sums) {
  return sums == DType::kI32 ? cast(sums, x) : ops::widen(x);
}

std::vector<TensorType> infer_dense(const Node& node, Function& function) {
  const auto& a = node.attrs_as<DenseAttrs>();
  const DenseForm& form = a.form;
  const TensorType &x = input_type(node, 0), &w = input_type(node, 1);
  const bool half = x.dtype == DType::kF32 && w.dtype == DType::kF16 && form.weight_block > 0;
  const bool bytes = is_product_of_bytes(x.dtype, w.dtype);
  if (form.tile_parts == 0 && form.fixed_bits == 0 && !half && !bytes) ops::require_same_dtype(node, 0, 1);
  require(!bytes || (form.weight_block == 0 && form.fixed_bits == 0 && !form.gemm),
          "products of u8 and i8 are plain or on tile registers");
  require(x.rank() >= 1, "the data {} must have a dimension", x.str());
  require(a.units > 0 && form.weight_block >= 0, "units must be positive");
  require(!form.gemm || form.weight_block == 0, "the gemm form has plain weights");
  require(form.tile_parts != 0 || form.tile_unit == TileUnit{},
          "tile_unit is for tile registers, with tile_parts");
  Shape expected = form.weight_block == 0
                       ? Shape{x.shape.back(), a.units}
                       : Shape{ceildiv(Dim(a.units), form.weight_block), x.shape.back(), form.weight_block};
  if (form.tile_parts != 0) {
    const TileGeometry& tile = geometry_of(form.tile_unit);
    require(x.dtype == tile.data() && w.dtype == tile.element && x.shape.back().is_constant() && !form.gemm &&
                form.weight_block == 0 && form.tile_parts >= 1 &&
                form.tile_parts <= (is_float(tile.element) ? 3 : 1),
            "tile registers of {} compute products of {} of constant depth", tile.name, name_of(tile.data()));
    expected = tile_weight_shape(a, x.shape.back().value());
  }
  if (form.fixed_bits != 0) expected = fixed_point_shape(node, a, x);
  require(form.fixed_bits != 0 || !ops::has_input(node, 2), "only weights of few bits have ranges");
  require(w.shape.size() == expected.size(), "the weight {} should have the shape {}", w.str(),
          to_string(expected));
  for (size_t i = 0; i < expected.size(); ++i) {
    ops::unify(expected[i], w.shape[i], function, node, "data and weight of the matrix product");
  }
  TensorType result = x;
  result.shape.back() = a.units;
  if (bytes) result.dtype = DType::kI32;
  return {result};
}

Expr volume(const std::vector<Expr>& extents) {
  Expr count = 1;
  for (const Expr& extent : extents) count = count * extent;
  return count;
}

Tensor dense_gemm(const Node& node, const Tensor& x, const Tensor& w) {
  std::vector<Expr> rows(x.shape().begin(), x.shape().end() - 1);
  auto row = [&](const std::vector<Expr>& i) {
    std::vector<Expr> at = ops::unflatten(i[0], rows);
    at.push_back(i[1]);
    return x(at);
  };
  Tensor a = rows.size() == 1 ? x : compute({volume(rows), x.shape().back()}, row, "gemm_operand");
  Tensor product = ops::gemm(a, w);
  auto output = [&](const std::vector<Expr>& i) {
    return product({ops::flatten({i.begin(), i.end() - 1}, rows), i.back()});
  };
  return compute(ops::result_shape(node), output, "gemm_output", Role::kGemmOutput);
}

/// The stages "dense_chunk" and "dense_packed" of weights as integers; `shape` is the latter's.
Tensor fixed_point_blocks(const DenseAttrs& a, const Tensor& x, const Tensor& words, const Tensor& ranges,
                          const std::vector<Expr>& shape) {
  const std::vector<Expr> leading(x.shape().begin(), x.shape().end() - 1);
  const Expr chunks = ranges.shape()[1];
  const FixedPointFormat format(a.form.fixed_bits);
  const int64_t chunk = fixed_point_chunk(simplify(x.shape().back()).as<IntImmNode>()->value);
  auto k = reduce_axis(0, chunk, "k");
  std::vector<Expr> chunk_shape = shape;
  chunk_shape.insert(chunk_shape.end() - 1, chunks);
  auto products = [&](const std::vector<Expr>& i) {
    const Expr &panel = i[i.size() - 3], depth = i[i.size() - 2] * chunk + k->var;
    std::vector<Expr> at = leading.empty() ? std::vector<Expr>{} : ops::unflatten(i[0], leading);
    at.push_back(depth);
    // Scaled here and not with the range, before which words might overflow the sum.
    const Expr scaled = x(at) * const_of(DType::kF32, 0x1p-31);
    const Expr word = fixed_point_word(words, format, a.form.weight_block, panel, depth, i.back());
    return sum(scaled * cast(DType::kF32, word), {k});
  };
  const Tensor sums = compute(chunk_shape, products, "dense_chunk", Role::kDenseChunk);
  auto c = reduce_axis(0, chunks, "c");
  auto body = [&](const std::vector<Expr>& i) {
    std::vector<Expr> at = i;
    at.insert(at.end() - 1, c->var);
    return sum(sums(at) * ranges({i[i.size() - 2], c->var, i.back()}), {c});
  };
  return compute(shape, body, "dense", Role::kPackedDense);
}

std::vector<Tensor> compute_dense(const Node& node, const std::vector<Tensor>& in) {
  const auto& a = node.attrs_as<DenseAttrs>();
  const DenseForm& form = a.form;
  const Tensor& w = in[1];
  if (form.on_tiles()) return {dense_tiles(node, a, in[0], w)};
  if (form.gemm) return {ops::narrow(dense_gemm(node, in[0], w), in[0].dtype())};
  const Tensor x = is_float(w.dtype()) ? ops::half_operand(in[0], w.dtype()) : in[0];
  std::vector<Expr> shape = ops::result_shape(node);
  const DType result = node.result()->type.dtype;
  auto k = reduce_axis(0, x.shape().back(), "k");
  auto row = [&](const std::vector<Expr>& i) {
    std::vector<Expr> at(i.begin(), i.begin() + x.rank() - 1);
    at.push_back(k->var);
    return factor(x(at), result);
  };
  if (form.weight_block == 0) {
    auto body = [&](const std::vector<Expr>& i) {
      return sum(row(i) * factor(w({k->var, i.back()}), result), {k});
    };
    return {ops::narrow(compute(shape, body, "dense", Role::kPlainDense), result)};
  }
  const std::vector<Expr> leading(shape.begin(), shape.end() - 1);
  std::vector<Expr> block_shape{w.shape()[0], form.weight_block};
  if (!leading.empty()) block_shape.insert(block_shape.begin(), volume(leading));
  auto body = [&](const std::vector<Expr>& i) {
    std::vector<Expr> at = leading.empty() ? std::vector<Expr>{} : ops::unflatten(i[0], leading);
    at.push_back(k->var);
    return sum(ops::widen(x(at)) * ops::widen(w({i[i.size() - 2], k->var, i.back()})), {k});
  };
  Tensor blocks = form.fixed_bits > 0 ? fixed_point_blocks(a, x, w, in[2], block_shape)
                                      : compute(block_shape, body, "dense", Role::kPackedDense);
  auto unpack = [&](const std::vector<Expr>& i) {
    std::vector<Expr> at;
    if (!leading.empty()) at.push_back(ops::flatten({i.begin(), i.end() - 1}, leading));
    at.push_back(floordiv(i.back(), form.weight_block));
    at.push_back(mod(i.back(), form.weight_block));
    return blocks(at);
  };
  return {ops::narrow(compute(shape, unpack, "dense_unpack"), in[0].dtype())};
}

/// Rows and columns of an operand as the product sees them.
std::pair<Dim, Dim> matrix_of(const Shape& shape, bool transposed) {
  const Dim &rows = shape[shape.size() - 2], &columns = shape.back();
  return transposed ? std::pair{columns, rows} : std::pair{rows, columns};
}

std::vector<TensorType> infer_matmul(const Node& node, Function& function) {
  const auto& attrs = node.attrs_as<MatmulAttrs>();
  const TensorType &a = input_type(node, 0), &b = input_type(node, 1);
  ops::require_same_dtype(node, 0, 1);
  require(a.rank() >= 2 && b.rank() >= 2, "operands {} and {} must be matrices", a.str(), b.str());
  auto [m, ka] = matrix_of(a.shape, attrs.transpose_a);
  auto [kb, n] = matrix_of(b.shape, attrs.transpose_b);
  ops::unify(ka, kb, function, node, "columns of the left and rows of the right matrix");
  Shape shape = broadcast_shapes({a.shape.begin(), a.shape.end() - 2}, {b.shape.begin(), b.shape.end() - 2},
                                 function, ops::origin_of(node));
  shape.push_back(m);
  shape.push_back(n);
  return {{a.dtype, shape}};
}

/// Element (row, column) of an operand, in the batch of the result's element at `index`.
Expr matrix_read(const Tensor& t, const std::vector<Expr>& index, Expr row, Expr column, bool transposed) {
  std::vector<Expr> at(index.begin(), index.end() - 2);
  at.push_back(transposed ? column : row);
  at.push_back(transposed ? row : column);
  return ops::widen(ops::broadcast_read(t, at));
}

/// An operand as ((g,) rows, columns), g over the result's leading axes.
Tensor matmul_operand(const Tensor& t, const std::vector<Expr>& batch, bool transposed) {
  if (batch.empty() && !transposed) return t;
  const size_t rank = t.shape().size();
  std::vector<Expr> shape{t.shape()[transposed ? rank - 1 : rank - 2],
                          t.shape()[transposed ? rank - 2 : rank - 1]};
  if (batch.size() == 1 && rank == 3 && !transposed && structurally_equal(t.shape()[0], batch[0])) return t;
  if (!batch.empty()) shape.insert(shape.begin(), volume(batch));
  auto body = [&](const std::vector<Expr>& i) {
    std::vector<Expr> at;
    if (!batch.empty()) at = ops::unflatten(i[0], batch);
    const Expr &row = i[i.size() - 2], &column = i.back();
    at.push_back(transposed ? column : row);
    at.push_back(transposed ? row : column);
    return ops::broadcast_read(t, at);
  };
  return compute(shape, body, "gemm_operand");
}

Tensor matmul_gemm(const Node& node, const MatmulAttrs& attrs, const Tensor& a, const Tensor& b) {
  std::vector<Expr> shape = ops::result_shape(node);
  std::vector<Expr> batch(shape.begin(), shape.end() - 2);
  Tensor product =
      ops::gemm(matmul_operand(a, batch, attrs.transpose_a), matmul_operand(b, batch, attrs.transpose_b));
  auto output = [&](const std::vector<Expr>& i) {
    std::vector<Expr> at(i.end() - 2, i.end());
    if (!batch.empty()) at.insert(at.begin(), ops::flatten({i.begin(), i.end() - 2}, batch));
    return product(at);
  };
  return compute(shape, output, "gemm_output", Role::kGemmOutput);
}

std::vector<Tensor> compute_matmul(const Node& node, const std::vector<Tensor>& in) {
  const auto& attrs = node.attrs_as<MatmulAttrs>();
  if (attrs.form.gemm) return {ops::narrow(matmul_gemm(node, attrs, in[0], in[1]), in[0].dtype())};
  const auto& a_shape = in[0].shape();
  auto k = reduce_axis(0, attrs.transpose_a ? a_shape[a_shape.size() - 2] : a_shape.back(), "k");
  auto body = [&](const std::vector<Expr>& i) {
    return sum(matrix_read(in[0], i, i[i.size() - 2], k->var, attrs.transpose_a) *
                   matrix_read(in[1], i, k->var, i.back(), attrs.transpose_b),
               {k});
  };
  Tensor y = compute(ops::result_shape(node), body, "matmul", Role::kMatmul);
  return {ops::narrow(y, in[0].dtype())};
}

}  // namespace

bool is_dense_weight(const Value& value, bool transposed) {
  return value.is_constant() && is_float(value.type.dtype) && value.type.rank() == 2 &&
         value.type.shape[transposed ? 0 : 1].value() > 0;
}

void add_dense_ops(OpSet& set) {
  OpDef dense = ops::define(nn::dense, FusionClass::kOutElementwiseFusable,
                                        LayoutBehaviour::kNone, {"data", "weight", "range"}, 1);
  dense.infer = infer_dense;
  dense.compute = compute_dense;
  dense.flops = [](const Node& node) {
    return element_count(node.result()->type.shape) * node.inputs[0]->type.shape.back() * 2;
  };
  dense.algorithm = [](const Node& node) {
    const DenseForm& form = node.attrs_as<DenseAttrs>().form;
    if (form.fixed_bits > 0) return fmt::format("{} bits", form.fixed_bits);
    return form.on_tiles() ? fmt::format("tiles, {} parts", form.tile_parts) : std::string();
  };
  dense.stages_input = [](const Node& node, size_t input) {
    const DenseForm& form = node.attrs_as<DenseAttrs>().form;
    return input == 0 && (form.gemm || form.on_tiles());
  };
  set.add(std::move(dense));

  OpDef matmul = ops::define(op::matmul, FusionClass::kOutElementwiseFusable,
                                          LayoutBehaviour::kNone, {"a", "b"});
  matmul.infer = infer_matmul;
  matmul.compute = compute_matmul;
  matmul.axes_apart = 2;
  matmul.flops = [](const Node& node) {
    auto [m, k] = matrix_of(node.inputs[0]->type.shape, node.attrs_as<MatmulAttrs>().transpose_a);
    return element_count(node.result()->type.shape) * k * 2;
  };
  matmul.stages_input = [](const Node& node, size_t) { return node.attrs_as<MatmulAttrs>().form.gemm; };
  set.add(std::move(matmul));
}

}  // namespace gantry
