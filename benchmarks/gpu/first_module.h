// The smallest module that shows whether a GPU runs anything, with PTX written by hand.
#pragma once

#include <vector>

#include "tests/cases/case_pack.h"

namespace gantry::gpu_bundle {

/// "first_kernel": out = (in + 1) * weights in two kernels, add_one and scale; "faulty_kernel": the same
/// module with an input at which scale writes to where no memory is. Their op is "", as they are no
/// conformance cases. For any GPU from sm_75 on, and for the tests' stand-in of the driver.
std::vector<conformance::PackedCase> first_cases();

}  // namespace gantry::gpu_bundle
