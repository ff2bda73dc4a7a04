// What a stage of a kernel is for, where its expression alone does not say so: the form that an op is
// computed in gives its stages roles, and schedule rules find by them what they know how to compute. What a
// rule can see by itself (an axis reduced, a window, a product) has no role.
#pragma once

#include <cstdint>

namespace gantry {

enum class Role : uint8_t {
  kNone,  ///< nothing that a rule would look for

  // Data.
  kPad,           ///< data with a border, read by windows
  kHalfOperand,   ///< data rounded to f16 for products of f16
  kReduction,     ///< whole axes of data reduced: a reduction that a model asks for, a mean, a variance
  kResizeTable,   ///< where a resized axis reads, or with which weights, one entry a position
  kResizedLines,  ///< data resized along one of their axes

  // Products in the form that a rule computes, each the sums over the depth (host/ops/conv.h, dense.h,
  // tiles.h).
  kPlainDense,   ///< weights as the model has them
  kPackedDense,  ///< weights in panels of neighbouring units
  kDenseChunk,   ///< of a chunk of the depth, weights as integers that share a range
  kPackedConv,   ///< weights in blocks of neighbouring output channels
  kGroupedConv,  ///< the same of several groups at once
  kMatmul,       ///< of two tensors that are only known when the program runs
  kGemm,         ///< as matrices, of which blocks and threads take tiles
  kGemmOutput,   ///< what kGemm computed as the op's result
  kTileRows,     ///< the left operand in the order of a tile unit
  kTileProduct,  ///< on a tile unit
  kTileOutput,   ///< what kTileProduct computed as the op's result

  // Winograd's algorithm (host/ops/conv_winograd.cpp): of the data a patch, its rows transformed, then its
  // columns; products a position; of those the columns transformed, then the rows.
  kWinogradPatch,
  kWinogradRows,
  kWinogradInput,
  kWinogradProduct,
  kWinogradColumns,
  kWinogradOutput,

  // Stages that rules make of those above.
  kPartialSum,     ///< the reduction of a part of what is reduced
  kTotal,          ///< what such parts are together
  kSumSoFar,       ///< a part's product and those before it
  kTilePartial,    ///< the product of a part of the depth as it is written
  kMatmulPanel,    ///< columns of the right operand, packed
  kGemmTile,       ///< what a block reads of an operand
  kGemmStored,     ///< a product that a launch of its own writes
  kWindowLines,    ///< windows reduced over their lines
  kWindowColumns,  ///< what is left of them, reduced along these
  kRowTile,        ///< what a block reads of a row
  kRowMoments,     ///< sums and deviations of a chunk of a row, or of a whole one
};

/// A stage of a product in one of the forms above.
constexpr bool is_of_product(Role role) {
  return role >= Role::kPlainDense && role <= Role::kWinogradOutput;
}
/// A stage of Winograd's algorithm, of any of its products but those in other forms.
constexpr bool is_winograd(Role role) {
  return role >= Role::kWinogradPatch && role <= Role::kWinogradOutput;
}

}  // namespace gantry
