// Ranges of knobs that several forms have.
#pragma once

#include "host/costs/unfit_knob.h"
#include "host/forms/form.h"
#include "host/graph/type.h"

namespace gantry::forms {

/// Blocks of packed weights: whole vectors of elements of so many bytes, at most as many as 32 vectors of the target's.
/// `narrowest`: bytes of the shortest vectors that serve; 0: those of the target.
KnobRange whole_vectors(const FormCase& given, int element_bytes, int64_t narrowest = 0);
/// bf16 parts of weights on tile units.
KnobRange tile_parts_range(const FormCase& given);
/// Rows of a register tile that the rule's model would choose otherwise.
KnobRange tile_rows_range(const FormCase& given);
constexpr Knob kTileRows{"rows", 0, "results whose sums a register tile keeps at once", tile_rows_range, true};
/// What a rule says of a knob, for Form::refused.
inline Misfit misfit_of(const std::optional<costs::UnfitKnob>& knob) {
  return knob ? Misfit(knob->str()) : std::nullopt;
}
/// Form::hopeless of a block of weights, by whether a tile of registers has it.
inline Misfit hopeless_block(bool has_tile) {
  return has_tile ? Misfit() : "registers do not hold the sums of such a block";
}
/// The extent in so many equal parts, rounded up, for parts up to `most`: rising, each once.
std::vector<int64_t> even_parts(int64_t extent, int64_t most);
/// Of knobs that cut loops into blocks: at least 1, at most `most`.
template <int64_t most>
KnobRange up_to(const FormCase&) {
  return {1, most};
}
/// How products on tile units are cut into blocks (host/costs/tile_blocks.h).
std::vector<int64_t> even_block_rows(const FormCase& given);
std::vector<int64_t> even_block_columns(const FormCase& given);
constexpr Knob kBlockRows{"rows", 0, "rows, or lines of an image, a block of results", up_to<4096>, true,
                          even_block_rows};
constexpr Knob kBlockColumns{"columns", 0, "columns a block of results", up_to<65536>, true, even_block_columns};
constexpr Knob kOwnRows{"own_rows", 0, "each block of rows makes its part of the operand itself", nullptr, true};
/// Misfit of a decision with tile units where the target or its precision has none.
Misfit unfit_tile_unit(const FormContext& context);
/// Misfit of `half`, if it is set.
Misfit unfit_half(const FormCase& given, DType dtype);
/// Of an element of packed weights for data of that type, as the decision has them.
int packed_bytes(const Decision& decision, DType dtype);

/// With FormContext::small_weights: weights of columns by depth f32 as so many bf16 parts are little larger.
bool small_in_parts(const FormContext& context, int64_t columns, int64_t depth, int64_t parts);
/// The block, or with FormContext::small_weights where whole blocks of it would pad too much, that of fewer columns which
/// pads the least.
int64_t fitting_block(const FormContext& context, int64_t block, int64_t columns, int64_t depth);

}  // namespace gantry::forms
