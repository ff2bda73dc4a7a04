// Floats of 8 bits and less, as OCP's formats define them (OFP8 and MX 1.0) and their fnuz relatives. An element
// is a code in the low bits of a byte: sign, exponent, mantissa; f8e8m0fnu is an exponent alone.
#pragma once

#include <cstdint>

#include "host/graph/type.h"

namespace gantry {

struct SmallFloat {
  int exponent_bits, mantissa_bits;  ///< the sign is the bit above them; of f8e8m0fnu there is none
  int bias;
  uint8_t largest;      ///< the code of the largest number
  uint8_t overflow;     ///< of what rounds to more than that: infinity, else NaN, else the largest
  uint8_t nan;          ///< f6 and f4 have none: -0 stands for it, as in ml_dtypes
  bool signed_special;  ///< -0, and a sign of `overflow` and `nan`; without (fnuz) NaN is the code of -0
};

/// The dtype must be a small float.
const SmallFloat& small_float(DType dtype);

/// The number of a code. Exact.
double small_float_value(DType dtype, uint8_t code);
/// Rounds to nearest, ties to even; the codes of what is too large and of NaN as SmallFloat says. f8e8m0fnu: ties
/// upwards, what is too small becomes the smallest number, and zero and what is negative NaN.
uint8_t small_float_code(DType dtype, double value);

}  // namespace gantry
