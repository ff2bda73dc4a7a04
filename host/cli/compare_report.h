// What `gantry compare` found, as a document and as text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "host/cli/compare_run.h"
#include "host/cli/report_summary.h"
#include "host/cli/statistics/changes.h"
#include "host/cli/statistics/comparison.h"

namespace gantry::cli {

/// The series that the newest result was added to.
struct HistoryReport {
  std::string file, series;
  size_t points = 0;
  std::vector<Change> changes;
};

struct CompareReport {
  bool compared = false;  ///< false: a result was only added to a history
  Comparison comparison;
  ReportSummary first, second;
  double smallest_effect = 0.01;
  std::optional<size_t> rounds;     ///< measured in turns; none: results that were measured apart
  std::optional<double> elapsed_s;  ///< of measuring
  std::vector<PlayedRound> played;  ///< of those measured in turns
  /// Of those measured in turns each side's measurement, as a document of bench (report_to_json); else empty.
  std::vector<std::string> results;
  std::optional<HistoryReport> history;
  std::optional<bool> failed;  ///< --fail-if-slower
  std::vector<std::string> warnings;
};

/// docs/bench-schema.md; ends with a line feed.
std::string comparison_json(const CompareReport& report);
/// "the second is faster: 4 % less time"
std::string verdict_text(const CompareReport& report);
std::string comparison_text(const CompareReport& report);

}  // namespace gantry::cli
