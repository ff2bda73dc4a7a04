// How the terms of a stage's sum are added up.
#pragma once

#include <vector>

#include "host/tensor/tensor.h"

namespace gantry {

struct Summation {
  std::vector<IterVarPtr> half_axes;  ///< see Stage::sum_in_half; none: sums are the stage's dtype throughout
  IterVarPtr part_axis;               ///< see Stage::sum_in_parts; null: one chain of additions
  std::vector<Expr> zero_unless;      ///< see Stage::skip_unless
};

}  // namespace gantry
