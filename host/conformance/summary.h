// What became of many tests: by operator, and why those did not pass.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "host/conformance/result.h"

namespace gantry::conformance {

/// How many tests have each status, in the order of kStatuses.
class Counts {
 public:
  void add(Status status) { ++counts_[static_cast<size_t>(status)]; }
  int64_t of(Status status) const { return counts_[static_cast<size_t>(status)]; }
  int64_t all() const;

 private:
  std::array<int64_t, std::size(kStatuses)> counts_{};
};

/// "Softmax"; "Softmax (expanded)" for a test of its function's body, where test_X of test_X_expanded is
/// among `operators`, the operators of all tests by name.
std::string row_of(const TestResult& result, const std::map<std::string, std::string>& operators);

struct OperatorRow {
  std::string name;
  Counts counts;
};
/// By name.
std::vector<OperatorRow> by_operator(const std::vector<TestResult>& results);

/// Why tests did not pass, in words that are the same for all of them.
struct Reason {
  Status status = Status::kUnsupported;
  std::string text;
  int64_t tests = 0;
  std::map<std::string, int64_t> operators;  ///< how many tests of each
};
/// Most tests first. A test that lacks several things is counted at each.
std::vector<Reason> by_reason(const std::vector<TestResult>& results);

}  // namespace gantry::conformance
