/// The tile units of x86-64.
#pragma once

#include "host/machine/tile_unit.h"

namespace gantry::x86 {

/// TDPBF16PS: eight registers of 16 rows of 64 bytes. It wants pairs along the depth side by side in b (Intel
/// 64 and IA-32 Architectures Software Developer's Manual, volume 2). 2 x 2 accumulators share four registers
/// of operands.
inline constexpr TileGeometry kAmxGeometry{.name = "amx",
                                           .rows = 16,
                                           .columns = 16,
                                           .depth = 32,
                                           .fewer_rows = true,
                                           .fast_parts = true,
                                           .registers = 8,
                                           .row_tiles = 2,
                                           .column_tiles = 2,
                                           .block_depth = 32,
                                           .side_by_side = 2,
                                           .row_pack = 1,
                                           .column_pack = 16};

/// VDPBF16PS (AVX512-BF16), in the 32 vector registers of 64 bytes, multiplies one pair of a row, repeated in
/// all lanes, by the pairs of 16 columns. 14 rows by two vectors of columns are 28 accumulators; two
/// registers for pairs and two for columns remain. Operands lie in memory as for AMX. It multiplies twice as
/// many pairs as a multiply-add in f32 does in the same time: the five products of two parts and the six of
/// three are slower than f32.
inline constexpr TileGeometry kVdpbf16psGeometry{.name = "vdpbf16ps",
                                                 .rows = 1,
                                                 .columns = 16,
                                                 .depth = 2,
                                                 .fewer_rows = false,
                                                 .fast_parts = false,
                                                 .registers = 32,
                                                 .row_tiles = 14,
                                                 .column_tiles = 2,
                                                 .block_depth = 32,
                                                 .side_by_side = 2,
                                                 .row_pack = 1,
                                                 .column_pack = 16};

/// VPDPBUSD (AVX512-VNNI), in the same registers, multiplies four u8 of a row, repeated in all lanes, by the
/// fours of i8 of 16 columns, and adds to i32 without limits (Intel 64 and IA-32 Architectures Software
/// Developer's Manual, volume 2): four times as many products as a multiply-add in f32 makes in the same
/// time. Fours of both vectors of columns adjoin, so that few rows, which wait for their weights, read them
/// from one end to the other.
inline constexpr TileGeometry kVpdpbusdGeometry{.name = "vpdpbusd",
                                                .element = DType::kI8,
                                                .row_element = DType::kU8,
                                                .sum = DType::kI32,
                                                .rows = 1,
                                                .columns = 16,
                                                .depth = 4,
                                                .fewer_rows = false,
                                                .fast_parts = false,
                                                .registers = 32,
                                                .row_tiles = 14,
                                                .column_tiles = 2,
                                                .block_depth = 64,
                                                .side_by_side = 4,
                                                .row_pack = 1,
                                                .column_pack = 32};

}  // namespace gantry::x86
