// Random numbers for converters.
#pragma once

#include "host/onnx/term.h"

namespace gantry {

/// Uniform in [0, 1), f32: of the node's seed (attribute `seed`), or of its name where it has none, and of
/// the turns of the loops around it.
Term random_fractions(NodeImport& n, const Shape& shape);

/// f64 in [0, 1) that numpy.random.RandomState draws with the node's integer attribute `seed`, in every turn
/// the same.
Term seeded_fractions(NodeImport& n, const Shape& shape);

}  // namespace gantry
