/// Instructions of CPUs that multiply tiles of bf16 and add to tiles of f32, and how their operands lie in
/// memory.
#pragma once

#include <cstdint>
#include <string_view>

namespace gantry {

enum class TileUnit : uint8_t {
  kAmx,        ///< x86-64, TDPBF16PS: eight registers of 16 rows of 64 bytes
  kBfmmla,     ///< AArch64 (FEAT_BF16): the 32 vector registers of 16 bytes
  kVdpbf16ps,  ///< x86-64 (AVX512-BF16): the 32 vector registers of 64 bytes
};

/// As printed programs name it.
constexpr std::string_view name_of(TileUnit unit) {
  switch (unit) {
    case TileUnit::kBfmmla:
      return "bfmmla";
    case TileUnit::kVdpbf16ps:
      return "vdpbf16ps";
    default:
      return "amx";
  }
}

/// One instruction adds a (rows x depth) times b (depth x columns) to sums (rows x columns).
struct TileGeometry {
  TileUnit unit;
  int64_t rows, columns, depth;
  bool fewer_rows;  ///< tiles may be lower than `rows`
  int registers;
  int64_t row_tiles, column_tiles;  ///< which registers accumulate at once

  // Operands come in blocks along the depth, of which so many neighbours lie side by side, then as many of
  // the next row of a (`row_pack`) or of the next column of b (`column_pack`).
  int64_t block_depth, side_by_side;
  int64_t row_pack, column_pack;

  /// Elements of a row of a in a block; with row_pack > 1 those of the following rows lie between.
  constexpr int64_t row_elements() const { return block_depth * row_pack; }
  /// Elements of b that lie together: `side_by_side` of each of `column_pack` columns.
  constexpr int64_t column_elements() const { return side_by_side * column_pack; }
};

/// TDPBF16PS wants pairs along the depth side by side in b (Intel 64 and IA-32 Architectures Software
/// Developer's Manual, volume 2). 2 x 2 accumulators share four registers of operands.
inline constexpr TileGeometry kAmxGeometry{.unit = TileUnit::kAmx,
                                           .rows = 16,
                                           .columns = 16,
                                           .depth = 32,
                                           .fewer_rows = true,
                                           .registers = 8,
                                           .row_tiles = 2,
                                           .column_tiles = 2,
                                           .block_depth = 32,
                                           .side_by_side = 2,
                                           .row_pack = 1,
                                           .column_pack = 16};

/// BFMMLA multiplies a register of two rows of four by one of two columns of four (Arm Architecture Reference
/// Manual for A-profile, C7.2). Five pairs of rows by four pairs of columns are 20 accumulators, as many as
/// hide five cycles' latency at four instructions a cycle; with 24, LLVM spills some of them. Each row is
/// packed beside a copy of the following one, so that a pair may begin at any row: a window's taps move by
/// single rows.
inline constexpr TileGeometry kBfmmlaGeometry{.unit = TileUnit::kBfmmla,
                                              .rows = 2,
                                              .columns = 2,
                                              .depth = 4,
                                              .fewer_rows = false,
                                              .registers = 32,
                                              .row_tiles = 5,
                                              .column_tiles = 4,
                                              .block_depth = 16,
                                              .side_by_side = 4,
                                              .row_pack = 2,
                                              .column_pack = 8};

/// VDPBF16PS multiplies one pair of a row, repeated in all lanes, by the pairs of 16 columns. 14 rows by two
/// vectors of columns are 28 accumulators; two registers for pairs and two for columns remain. Operands lie
/// in memory as for AMX.
inline constexpr TileGeometry kVdpbf16psGeometry{.unit = TileUnit::kVdpbf16ps,
                                                 .rows = 1,
                                                 .columns = 16,
                                                 .depth = 2,
                                                 .fewer_rows = false,
                                                 .registers = 32,
                                                 .row_tiles = 14,
                                                 .column_tiles = 2,
                                                 .block_depth = 32,
                                                 .side_by_side = 2,
                                                 .row_pack = 1,
                                                 .column_pack = 16};

constexpr const TileGeometry& geometry_of(TileUnit unit) {
  switch (unit) {
    case TileUnit::kBfmmla:
      return kBfmmlaGeometry;
    case TileUnit::kVdpbf16ps:
      return kVdpbf16psGeometry;
    default:
      return kAmxGeometry;
  }
}

}  // namespace gantry
