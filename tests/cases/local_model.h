/// Module files executed in this process, and where.
#pragma once

#include <string>

#include "host/compiler/loaded_program.h"

namespace gantry::testing {

using LocalModel = LoadedProgram;

/// The device of this machine that runs code for that target: "cpu", "cuda" or "cuda-emulated".
std::string device_for(const std::string& target);

/// The target of tests that run kernels of a GPU: the emulated one, with `checks` ("+checks") where given,
/// or, on a machine that has a GPU, the one that GANTRY_TEST_GPU names: "cuda:sm_90".
std::string gpu_test_target(const std::string& checks = "");

}  // namespace gantry::testing
