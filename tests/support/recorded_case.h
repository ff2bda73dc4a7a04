/// What tests run on a GPU, kept for a machine that has one and not these tests.
#pragma once

#include <vector>

#include "host/graph/graph.h"

namespace gantry::testing {

/// Where GANTRY_TEST_RECORD names a folder: writes the program that the running test has run on a GPU,
/// emulated or real, with its inputs and outputs, as a pack of one case (tests/cases/case_pack.h)
/// "SUITE.TEST" or "SUITE.TEST.2", … there. It is a module for any GPU from sm_80 on, and for the emulated
/// one.
void record_case(const Graph& graph, const std::vector<ConstantPtr>& inputs,
                 const std::vector<ConstantPtr>& outputs);

}  // namespace gantry::testing
