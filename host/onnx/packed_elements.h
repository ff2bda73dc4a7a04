// Elements of 2, 4 and 8 bits in bytes, as com.microsoft's quantised ops have them.
#pragma once

#include "host/onnx/term.h"

namespace gantry {

/// The elements of bytes (…, bytes), of u8: the first `count` of each row. The first element of a byte is in
/// its lowest bits; `bits` is 2, 4 or 8.
Term unpacked(const Term& bytes, int64_t bits, const Dim& count);

}  // namespace gantry
