#include "host/cli/conformance_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "host/cli/terminal.h"
#include "host/cli/text.h"
#include "host/conformance/summary.h"

namespace gantry::cli {
namespace {

using conformance::Counts;
using conformance::kStatuses;
using conformance::OperatorRow;
using conformance::Reason;
using conformance::Status;
using conformance::TestResult;

constexpr size_t kMostReasons = 20;
constexpr size_t kMostOperators = 4;

std::string operator_table(const conformance::RunRecord& record) {
  std::vector<std::pair<std::string, Table::Align>> columns = {{"operator", Table::Align::kLeft}};
  for (const Status status : kStatuses) columns.emplace_back(name_of(status), Table::Align::kRight);
  Table table(std::move(columns));
  const auto add = [&](const std::string& name, const Counts& counts) {
    std::vector<std::string> cells = {name};
    for (const Status status : kStatuses) {
      const int64_t tests = counts.of(status);
      cells.push_back(tests == 0 ? "" : std::to_string(tests));
    }
    table.row(std::move(cells));
  };
  for (const OperatorRow& row : by_operator(record.results)) add(row.name, row.counts);
  Counts sum;
  for (const TestResult& result : record.results) sum.add(result.status);
  add("all", sum);
  return table.str(0, terminal_width());
}

/// "Resize 12, Scan 3 and 4 others"
std::string operators_text(const Reason& reason) {
  std::vector<std::pair<std::string, int64_t>> operators(reason.operators.begin(), reason.operators.end());
  std::ranges::stable_sort(operators, std::ranges::greater(), [](const auto& each) { return each.second; });
  std::string text;
  for (size_t i = 0; i < std::min(operators.size(), kMostOperators); ++i)
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", operators[i].first, operators[i].second);
  if (operators.size() > kMostOperators)
    text += fmt::format(" and {} others", operators.size() - kMostOperators);
  return text;
}

std::string reason_table(const std::vector<Reason>& reasons) {
  Table table({{"tests", Table::Align::kRight},
               {"status", Table::Align::kLeft},
               {"why", Table::Align::kLeft},
               {"operators", Table::Align::kLeft}});
  for (size_t i = 0; i < std::min(reasons.size(), kMostReasons); ++i) {
    const Reason& reason = reasons[i];
    table.row({std::to_string(reason.tests), std::string(name_of(reason.status)), reason.text,
               operators_text(reason)});
  }
  std::string text = table.str(0, terminal_width());
  if (reasons.size() > kMostReasons)
    text += fmt::format("and {} other reasons; --json has all\n", reasons.size() - kMostReasons);
  return text;
}

}  // namespace

std::string test_line(const TestResult& result) {
  std::string reason = result.reason;
  while (!reason.empty() && reason.back() == '\n') reason.pop_back();
  std::string indented;
  for (const char c : reason) indented += c == '\n' ? "\n    " : std::string(1, c);
  return fmt::format("{:<12}{}{}{}\n", name_of(result.status), result.name, indented.empty() ? "" : ": ",
                     indented);
}

std::string sum_text(const conformance::RunRecord& record) {
  Counts counts;
  for (const TestResult& result : record.results) counts.add(result.status);
  std::string text = fmt::format("{} of {} tests pass", counts.of(Status::kPass), counts.all());
  const char* separator = "; ";
  for (const Status status : kStatuses) {
    if (status == Status::kPass || counts.of(status) == 0) continue;
    text += fmt::format("{}{} {}", separator, counts.of(status), name_of(status));
    separator = ", ";
  }
  return text;
}

std::string conformance_text(const conformance::RunRecord& record) {
  std::string text;
  for (const TestResult& result : record.results) {
    if (!result.passed() && result.status != Status::kUnsupported) text += test_line(result);
  }
  if (!text.empty()) text += "\n";
  text += operator_table(record);
  const std::vector<Reason> reasons = by_reason(record.results);
  if (!reasons.empty()) text += "\n" + reason_table(reasons);
  return text + "\n" + sum_text(record) + "\n";
}

}  // namespace gantry::cli
