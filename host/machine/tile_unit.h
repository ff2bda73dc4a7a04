/// Tile units: instructions of CPUs that multiply tiles of few bits, as bf16, f16 or integers, and add to tiles of
/// f32 or i32. What there is to know of one stands in its description, which the target's folder has (host/targets): how many rows and
/// columns, how many registers, how operands lie in memory. Expressions, rules and lowering ask that, and no
/// unit's name.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "host/machine/dtype.h"

namespace gantry {

/// A unit by its place in tile_units(); TileUnit{} is the first of them.
enum class TileUnit : uint8_t {};

/// One instruction adds a (rows x depth) times b (depth x columns) to sums (rows x columns).
struct TileGeometry {
  TileUnit unit{};  ///< as tile_units() numbers it; a target's folder leaves it out
  std::string_view name;  ///< as printed programs and attributes have it
  DType element = DType::kBF16;   ///< of b, and of a
  DType row_element = element;    ///< of a, where that is another one
  DType sum = DType::kF32;
  int64_t rows, columns, depth;
  bool fewer_rows;  ///< tiles may be lower than `rows`: registers are given their shapes first
  /// f32 as two or three bf16 parts take less time than multiply-adds in f32, not only less than others'
  /// parts.
  bool fast_parts;
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
  /// What an instruction reads of b, in bytes.
  int64_t operand_bytes() const { return byte_width(element) * columns * depth; }
  /// Of the data of an op that is computed on the unit: as they are, if those are integers, else to be rounded.
  DType data() const { return is_float(row_element) ? DType::kF32 : row_element; }
  /// Of such an op's constant weight.
  DType weight() const { return is_float(element) ? DType::kF32 : element; }
};

/// All units, target by target in the order of host/targets/common/targets.def.
std::span<const TileGeometry> tile_units();
const TileGeometry& geometry_of(TileUnit unit);
/// An internal error if there is none of that name.
TileUnit tile_unit_named(std::string_view name);
inline std::string_view name_of(TileUnit unit) {
  return geometry_of(unit).name;
}

}  // namespace gantry
