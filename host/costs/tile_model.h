// The analytic model that picks register tiles.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "host/costs/unfit_knob.h"
#include "host/machine/target.h"

namespace gantry::costs {

/// A register-tiled product: every output point sums `reduction` products; `lanes * vectors` neighbouring
/// output channels and `rows` neighbouring output positions are accumulated in registers at once.
struct ProductWork {
  int64_t channels = 1;    ///< extent of the output axis that is vectorised
  /// Extent of the axis that is tiled by rows; 0: symbolic; a guess where open points of images are one row.
  int64_t row_extent = 1;
  int64_t row_count = 1;   ///< how many such axes there are (batch * height)
  int64_t reduction = 1;   ///< products summed a point
  int element_bytes = 4;
  int64_t image_points = 0;  ///< rows of an image all together; 0: unknown, or there are no images
  int64_t row_bytes = 0;     ///< between the data of neighbouring rows; 0: unknown
  bool half = false;         ///< summed in f16 over a few (kHalfChunk), then in f32; element_bytes is 2
  /// Every row axis has weights of its own, so that none are in the first-level cache when it begins.
  bool own_weights = false;
  /// Blocks divide the channels: those of another group follow.
  bool whole_blocks = false;
  /// The rows of a tile begin anywhere, each at an address of its own.
  bool scattered_rows = false;
  int given_rows = 0;  ///< of the tile; 0: whatever takes the least
};

/// Sums in f16 are of so many products at most, and of so many of those: the more, the less exact, the fewer,
/// the more time goes by adding them elsewhere.
constexpr int64_t kHalfChunk = 32, kHalfChunks = 8;
/// Sums of f32 products are of so many terms at most, and of the sums of such parts: rounding errors of one
/// long chain of additions grow with the square root of its length, and would be the largest of a network's.
/// Winograd's transformation of the sums multiplies what they are off by.
constexpr int64_t kExactTerms = 512, kExactWinogradTerms = 64;
/// How many of `extent` to take at once where `limit` are allowed: a divisor if there is one near, else the
/// limit and the last are fewer.
int64_t half_part(int64_t extent, int64_t limit);
/// Cycles that the sums of a tile over that reduction take beside their products.
double half_sum_cycles(int64_t reduction, const struct ProductTile& tile, const MachineModel& machine);
/// Cycles to round so many f32 to f16, from and to the caches.
double rounding_cycles(int64_t elements, const MachineModel& machine);

/// The named knobs of the register tile.
struct ProductTile {
  int lanes = 1;    ///< elements a vector
  int vectors = 1;  ///< vectors of channels a tile
  int rows = 1;     ///< positions a tile
  int missing = 0;  ///< lanes that the last vector lacks: none, or half of them
  int64_t channel_block() const { return int64_t{lanes} * vectors - missing; }
};

/// True for small images with many channels: their sums are kept near while parts of the reduction go by
/// outside of the tiles, so that each part's weights are read once from afar. Tiles then divide the rows: an
/// overlap would be summed twice.
bool cuts_reduction(const ProductWork& work, const ProductTile& tile, const MachineModel& machine);
/// Then a convolution leaves out lines of the padding; columns of it too where a tile is a whole line.
bool skips_columns(const ProductWork& work, const ProductTile& tile);

/// Of `inputs` channels that are reduced over innermost, how many a part has: weights for half of the
/// first-level cache, a divisor if there is one near.
int64_t reduction_part(int64_t inputs, const ProductWork& work, const ProductTile& tile,
                       const MachineModel& machine);

/// A multiply-add takes a scalar from a lane of a register, not from memory (NEON): the next scalars of each
/// row are kept in one (host/targets/arm/lane_operands.cpp).
bool takes_lanes(const MachineModel& machine);

/// Vector registers that a tile occupies in the inner loop: rows * vectors accumulators, `vectors` weights,
/// and one broadcast or, where products take a lane of a register, one a row.
int registers_of(const ProductTile& tile, const MachineModel& machine);
/// Every tile that fits the register file.
std::vector<ProductTile> product_tile_space(const ProductWork& work, const MachineModel& machine);

/// Whether one of them has that block: weights in others are met by a row of more vectors than registers hold.
bool has_tile(const ProductWork& work, const MachineModel& machine, int64_t channel_block);

/// Predicted cycles on one core: the slowest of multiply-adds (throughput and latency), first-level loads and
/// the stream of weights from the level that holds their panel, for all tiles including what they compute in
/// vain at the edges, plus a fixed cost a tile for the epilogue.
double predicted_cycles(const ProductWork& work, const ProductTile& tile, const MachineModel& machine);

/// The tile with the fewest predicted cycles. `channel_block` != 0 restricts it to that block (weights that
/// are packed already).
ProductTile choose_product_tile(const ProductWork& work, const MachineModel& machine,
                                int64_t channel_block = 0);

/// Of a tile that was chosen where so many rows are given (ProductWork::given_rows, DenseWork::given_rows; 0: none
/// are): the knob, where it has others. Then no tile of the block has them: the registers are too few, or the rows of
/// the result.
std::optional<UnfitKnob> unfit_rows(int given_rows, const ProductTile& chosen);

/// Cycles of arithmetic and of memory traffic that goes on meanwhile.
double overlapped(double arithmetic, double traffic);

/// How much longer two threads take for so many equal tasks than if these could be divided.
double imbalance(int64_t tasks);

/// The vector length for an axis of that extent: the widest power of two that the machine has and that wastes
/// the least; 1 for an axis shorter than 2.
int choose_lanes(int64_t extent, int element_bytes, const MachineModel& machine);

}  // namespace gantry::costs
