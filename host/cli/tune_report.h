// What `gantry tune` found, as a document and as text.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/cli/compile_hosts.h"
#include "host/tune/metric.h"
#include "host/tune/tuner.h"

namespace gantry::cli {

struct TuneReport {
  std::string model, machine, target, precision, cost_model;
  int threads = 0;
  tune::Metric metric = tune::Metric::kTime;
  std::vector<tune::Task> tasks;
  tune::TuneResult result;
  double seconds = 0;                  ///< that tuning took
  double waited_s = 0;                 ///< of them, for a board of a farm
  BuildCounts builds;                  ///< of the programs that were measured
  std::optional<std::string> records;  ///< where they are kept
  size_t records_written = 0;
  /// What the cost model began with beside the records, and how many trials that has; none: nothing.
  std::optional<std::pair<std::string, size_t>> prior;
};

/// docs/tuning.md; ends with a line feed.
std::string tuning_json(const TuneReport& report);
/// `width`: of the terminal; 0: as wide as it gets.
std::string tuning_text(const TuneReport& report, size_t width);

}  // namespace gantry::cli
