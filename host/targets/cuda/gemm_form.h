// Matrix products rewritten for tiling: operands as tiles of shared memory, results as tiles of registers.
#pragma once

#include <optional>
#include <vector>

#include "host/targets/cuda/gemm_model.h"
#include "host/tensor/schedule.h"

namespace gantry::cuda {

/// A stage of role kGemm (host/ops/dense.h) taken apart.
struct GemmStage {
  Operation op;
  Expr batch, m, n, k;     ///< extents; `batch` null if there is none
  Expr a_element, b_element;  ///< what is multiplied, in terms of the op's axes
  bool a_along_m = false;  ///< operand A is contiguous in memory along m, not k
  bool b_along_k = false;  ///< operand B is contiguous along k, not n
};
/// The product if `op` is one: role kGemm and the body sum(a * b) over one axis.
std::optional<GemmStage> find_gemm(const Operation& op);
/// Figures for the model; symbolic extents become typical ones.
GemmWork gemm_work(const GemmStage& gemm);

/// The stages of a tiled product. All extents of the tiles are multiples of the knobs', so that only filling them
/// and storing results has to ask for bounds:
///   a (…, k, m) = if m < M && k < K then A(m, k) else 0          (b likewise)
///   product ((split,) (batch,) m, n) = sum over its part of k of a(k, m) * b(k, n)
struct GemmTensors {
  Tensor a, b, product;
  /// Null, or product with its true extents, for a launch of its own: copied from `product`.
  Tensor stored;
  /// Replaces the "gemm" stage: `product`, `stored`, or the sum over the parts of `stored`.
  Tensor result;
};
/// For tensor cores, any `precision` but kFp32, k is the operands' last axis and their elements are rounded to that
/// precision (fp16: beyond 65504 they become infinite); they are multiplied and summed in f32.
/// `separate`: the product is a launch of its own even if it is not split.
GemmTensors tile_gemm(const GemmStage& gemm, const GemmTile& tile, Precision precision, bool separate);
/// Parts (split, (batch,) m, n) of k and their sum ((batch,) m, n), for products of few rows.
struct GemvTensors {
  Tensor partial, result;
};
GemvTensors split_gemv(const GemmStage& gemm, const GemvTile& tile);

}  // namespace gantry::cuda
