/// The tile unit of AArch64.
#pragma once

#include "host/machine/tile_unit.h"

namespace gantry::arm {

/// BFMMLA (FEAT_BF16), in the 32 vector registers of 16 bytes, multiplies a register of two rows of four by
/// one of two columns of four (Arm Architecture Reference Manual for A-profile, C7.2). Five pairs of rows by
/// four pairs of columns are 20 accumulators, as many as hide five cycles' latency at four instructions a
/// cycle; with 24, LLVM spills some of them. Each row is packed beside a copy of the following one, so that a
/// pair may begin at any row: a window's taps move by single rows. It multiplies four times as many pairs as
/// a multiply-add in f32 does in the same time: the five products of two parts and the six of three are
/// slower than f32.
inline constexpr TileGeometry kBfmmlaGeometry{.name = "bfmmla",
                                              .rows = 2,
                                              .columns = 2,
                                              .depth = 4,
                                              .fewer_rows = false,
                                              .fast_parts = false,
                                              .registers = 32,
                                              .row_tiles = 5,
                                              .column_tiles = 4,
                                              .block_depth = 16,
                                              .side_by_side = 4,
                                              .row_pack = 2,
                                              .column_pack = 8};

}  // namespace gantry::arm
