// Attributes of matrix products.
//
// nn.dense: x (…, K) times a weight, in their type, but of u8 times i8 in i32, without loss; by its form:
// weight_block == 0: weight (K, units); nb = weight_block > 0: weight
// (ceil(units/nb), K, nb), zero-filled, also in f16 for f32 data: stage "half_operand" rounds those. Result
// (…, units). Stages, with roles (host/tensor/role.h) in brackets: "dense" (kPlainDense); packed: "dense"
// (kPackedDense), (rows, ceil(units/nb), nb) reducing over K, with all leading axes of x as rows (left out if
// there are none), then "dense_unpack" (…, units). fixed_bits > 0: packed weights are integers of so many
// bits, and a third input has their ranges (FixedPointWeight in host/ops/fixed_point.h); the stage
// "dense_chunk" (kDenseChunk), (rows, panels, chunks, nb), then sums x * 2^-31 times words over a chunk of K,
// and "dense" these sums times ranges.
//
// matmul: numpy semantics of two tensors of rank >= 1 with the last two axes swapped beforehand where asked;
// leading axes broadcast. Stage "matmul" (kMatmul).
//
// Form `gemm` of both (and of nn.conv), for targets whose rules tile matrix products: the stage "gemm"
// (kGemm) with axes (m, n) or (g, m, n), one reduction axis k, and the body sum(A * B), operands widened to
// f32 where they are shorter. A is read at exactly ((g,) m, k) and B at ((g,) k, n). Where an operand has
// other axes, a stage in between has these: "gemm_operand" only maps indices, "im2col" also checks bounds;
// ops that only move data may have been fused before them (a transposition that feeds a matmul). The stage
// "gemm_output" then has the result's axes and reads "gemm" at the fused row; what is fused behind follows
// it. nn.dense: m runs over all axes but the last. matmul: g over all leading axes, left out if there are
// none.
#pragma once

#include "host/graph/attrs.h"
#include "host/graph/graph.h"
#include "host/graph/op_handle.h"
#include "host/ops/tile_attrs.h"

namespace gantry {

/// How it is computed, and how its weight lies for that. As it is made, it is the op's definition.
struct DenseForm {
  int64_t weight_block = 0;
  int64_t fixed_bits = 0;  ///< not 0: weights as integers, 20 or 24
  bool gemm = false;       ///< the form for tiled matrix products; weight (K, units)
  int64_t tile_parts = 0;  ///< not 0: on tile registers, weight as nn.tile_weight makes it (host/ops/tiles.h)
  TileUnit tile_unit{};

  bool on_tiles() const { return tile_parts > 0; }
};

struct DenseAttrs : AttrsOf<DenseAttrs> {
  int64_t units = 0;
  DenseForm form;

  void fields(AttrVisitor& visit) override {
    visit("units", units);
    visit.choices([&] {
      visit("weight_block", form.weight_block);
      visit("fixed_bits", form.fixed_bits);
      visit("gemm", form.gemm);
      visit("tile_parts", form.tile_parts);
      visit_tile_unit(visit, form.tile_unit);
    });
  }
  /// No form for some target was made of it yet.
  bool as_in_model() const { return form.weight_block == 0 && !form.gemm && form.tile_parts == 0; }
};

struct MatmulForm {
  bool gemm = false;  ///< for tiled matrix products
};

struct MatmulAttrs : AttrsOf<MatmulAttrs> {
  bool transpose_a = false, transpose_b = false;
  MatmulForm form;

  void fields(AttrVisitor& visit) override {
    visit("transpose_a", transpose_a);
    visit("transpose_b", transpose_b);
    visit.choices([&] { visit("gemm", form.gemm); });
  }
};

namespace nn {
inline constexpr Op<DenseAttrs> dense{"nn.dense"};
}  // namespace nn

namespace op {
inline constexpr Op<MatmulAttrs> matmul{"matmul"};
}  // namespace op

/// Whether it is a matrix (K, N), or (N, K) to be transposed, as nn.dense takes it: of floats, known when
/// compiling, so that it can be packed, and with columns.
bool is_dense_weight(const Value& value, bool transposed);

}  // namespace gantry
