// linalg.det: determinants.
#pragma once

#include "host/graph/attrs.h"
#include "host/graph/op_handle.h"

namespace gantry {

namespace linalg {
/// Of square matrices (…, n, n) of floats -> (…).
inline constexpr Op<NoAttrs> det{"linalg.det"};
}  // namespace linalg

}  // namespace gantry
