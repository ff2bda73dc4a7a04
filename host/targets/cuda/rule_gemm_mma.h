// Matrix products on tensor cores.
#pragma once

#include "host/targets/cuda/gemm_form.h"
#include "host/targets/cuda/mma_model.h"

namespace gantry::cuda {

/// Fills a tile of shared memory by all threads: four neighbouring elements, as memory has them along the
/// stage's last axis or else the one before it, a thread and turn.
void fill_shared(Stage& stage, bool along_last, int64_t threads);
/// The grid's loops, x innermost: y and z have fewer blocks than x may have.
std::vector<IterVarPtr> block_order(const GemmStage& gemm, int64_t bm, const IterVarPtr& batch,
                                    const IterVarPtr& row_block, const IterVarPtr& column_block);

/// The tile of a product (role kGemm) of f32 operands where `precision` asks for tensor cores. Nothing for
/// products that stay with fp32 arithmetic, whose results are only more accurate: fewer than 16 rows, 8
/// columns or the instruction's depth, other types, and Winograd's products, whose transformed operands need
/// the precision of f32.
std::optional<MmaTile> tensor_core_tile(const GemmStage& gemm, const GemmWork& work, const Target& target,
                                        int64_t max_points);

/// Schedules a product (of tile_gemm) and its operands below `owner`, the stage that reads its results:
///
///   blocks (batch, row tile, column tile), warps, threads
///     product = 0                                  registers, spread over a warp
///     for k in steps of bk
///       a[bm][bk], b[bn][bk]                       shared memory, converted while all threads fill it
///       for k in steps of the instruction: product += a * b, the whole warp
///     output = epilogue(product)
///
/// The owner's leaves must be batch (or null), rows, columns and `ones`, axes of extent 1.
void schedule_mma(Schedule& schedule, const GemmStage& gemm, const MmaTile& tile, const GemmTensors& tensors,
                  Stage& owner, const IterVarPtr& batch, const IterVarPtr& rows, const IterVarPtr& columns,
                  const std::vector<IterVarPtr>& ones);

}  // namespace gantry::cuda
