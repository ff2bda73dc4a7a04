// Of square matrices: linalg.det, determinants, and linalg.inverse.
#pragma once

#include "host/graph/attrs.h"
#include "host/graph/op_handle.h"

namespace gantry {

namespace linalg {
/// Of square matrices (…, n, n) of floats -> (…).
inline constexpr Op<NoAttrs> det{"linalg.det"};
/// Of square matrices (…, n, n) of floats -> (…, n, n). Of a singular one infinities and NaN.
inline constexpr Op<NoAttrs> inverse{"linalg.inverse"};
}  // namespace linalg

}  // namespace gantry
