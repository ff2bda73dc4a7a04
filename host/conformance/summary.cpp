#include "host/conformance/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "host/conformance/test_model.h"

namespace gantry::conformance {
namespace {

std::map<std::string, std::string> operators_of(const std::vector<TestResult>& results) {
  std::map<std::string, std::string> operators;
  for (const TestResult& result : results) operators[result.name] = result.operator_name;
  return operators;
}

/// The first line of a message, without the file that it begins with.
std::string first_line(const TestResult& result) {
  std::string line = result.reason.substr(0, result.reason.find('\n'));
  for (const std::string& prefix : {result.folder + "/model.onnx: ", result.folder + "/"}) {
    if (line.starts_with(prefix)) line.erase(0, prefix.size());
  }
  return line;
}

std::vector<std::string> reasons_of(const TestResult& result) {
  if (!result.features.empty()) return result.features;
  if (result.status == Status::kUnsupported) return {fmt::format("{}: {}", result.phase, first_line(result))};
  return {fmt::format("{} in phase {}", name_of(result.status), result.phase)};
}

}  // namespace

int64_t Counts::all() const {
  return std::accumulate(counts_.begin(), counts_.end(), int64_t{0});
}

std::string row_of(const TestResult& result, const std::map<std::string, std::string>& operators) {
  std::string of;
  if (!is_expanded(result.name, of)) return result.operator_name;
  const auto found = operators.find(of);
  return found == operators.end() ? result.operator_name : found->second + " (expanded)";
}

std::vector<OperatorRow> by_operator(const std::vector<TestResult>& results) {
  const auto operators = operators_of(results);
  std::map<std::string, Counts> rows;
  for (const TestResult& result : results) rows[row_of(result, operators)].add(result.status);
  std::vector<OperatorRow> list;
  for (auto& [name, counts] : rows) list.push_back({name, counts});
  return list;
}

std::vector<Reason> by_reason(const std::vector<TestResult>& results) {
  const auto operators = operators_of(results);
  std::map<std::pair<Status, std::string>, Reason> reasons;
  for (const TestResult& result : results) {
    if (result.passed()) continue;
    for (const std::string& text : reasons_of(result)) {
      Reason& reason = reasons[{result.status, text}];
      reason.status = result.status;
      reason.text = text;
      ++reason.tests;
      ++reason.operators[row_of(result, operators)];
    }
  }
  std::vector<Reason> list;
  for (auto& [key, reason] : reasons) list.push_back(std::move(reason));
  std::ranges::stable_sort(list, std::ranges::greater(), &Reason::tests);
  return list;
}

}  // namespace gantry::conformance
