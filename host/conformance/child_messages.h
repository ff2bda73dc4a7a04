// What the process of one test says to the one that started it, a line a message: which phase begins, and in
// the end the result. Who dies before that has said where.
#pragma once

#include <optional>
#include <string>

#include "host/conformance/child_pool.h"
#include "host/conformance/result.h"

namespace gantry::conformance {

std::string phase_line(const std::string& phase);
std::string result_line(const TestResult& result);

/// The result that the process said, or, of one that ended without: a crash or timeout in the phase that it
/// was in, with the last line of its stderr. Name, folder, operator and opset are those of `test`, which need
/// not have been said. Nothing where it ended by itself with exit code 2: what it ran on cannot be reached.
std::optional<TestResult> judge(const ChildEnd& end, const TestResult& test);

}  // namespace gantry::conformance
