// Discrete Fourier transforms as products with small matrices.
#pragma once

#include "host/onnx/term.h"

namespace gantry {

/// sum over j of x[j] exp(-2 pi i j k / n) (inverse: + in the exponent, and divided by n) for every k, of
/// complex numbers (…, n, 2) or real ones (…, n, 1) -> (…, n, 2). Lengths that are products take a step for
/// every factor (Cooley and Tukey, 1965); prime ones, and those that only the running model knows, a product
/// with a matrix of n x n.
Term fourier(const Term& x, bool inverse);

}  // namespace gantry
