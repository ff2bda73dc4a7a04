// Ranges of knobs that several forms have.
#pragma once

#include "host/forms/form.h"
#include "host/graph/type.h"

namespace gantry::forms {

/// Blocks of packed weights: whole vectors of elements of so many bytes, at most as many as 32 vectors of the target's.
/// `narrowest`: bytes of the shortest vectors that serve; 0: those of the target.
KnobRange whole_vectors(const FormCase& given, int element_bytes, int64_t narrowest = 0);
/// bf16 parts of weights on tile units.
KnobRange tile_parts_range(const FormCase& given);
/// Misfit of a decision with tile units where the target or its precision has none.
Misfit unfit_tile_unit(const FormContext& context);
/// Misfit of `half`, if it is set.
Misfit unfit_half(const FormCase& given, DType dtype);
/// Elements of packed weights for data of that type.
int packed_bytes(const Decision& decision, DType dtype);

/// With FormContext::small_weights: weights of columns by depth f32 as so many bf16 parts are little larger.
bool small_in_parts(const FormContext& context, int64_t columns, int64_t depth, int64_t parts);
/// The block, or with FormContext::small_weights where whole blocks of it would pad too much, that of fewer columns which
/// pads the least.
int64_t fitting_block(const FormContext& context, int64_t block, int64_t columns, int64_t depth);

}  // namespace gantry::forms
