// The result of `gantry conformance` as people read it.
#pragma once

#include <string>

#include "host/conformance/record.h"

namespace gantry::cli {

/// "wrong    test_abs: output 'y' [2]: 1 instead of 0 (1 of 3 elements differ)"
std::string test_line(const conformance::TestResult& result);

/// The tests that are wrong, crashed or took too long, a row an operator, why tests did not pass, the sum.
std::string conformance_text(const conformance::RunRecord& record);

/// "905 of 1884 tests pass; 6 wrong, 959 unsupported, 12 crash, 2 timeout"
std::string sum_text(const conformance::RunRecord& record);

}  // namespace gantry::cli
