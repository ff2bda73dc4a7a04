// Normalisations that several domains have.
#pragma once

#include "host/onnx/term.h"

namespace gantry {

/// x / sqrt(mean of squares + epsilon), over the axes from `axis` (negative ones count from the end) to the last.
inline Term rms_normalised(const Term& x, int64_t axis, double epsilon) {
  const Term power = mean(square(x), axes_from(x, x.node().axis(axis, x.rank())), KeepAxes::kYes);
  return x / sqrt(power + epsilon);
}

}  // namespace gantry
