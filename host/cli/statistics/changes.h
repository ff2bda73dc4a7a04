// When did a program's time change? For a series that is kept over days or commits.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gantry::cli {

struct SeriesPoint {
  std::string date, label;
  std::vector<double> process_medians_ms;
};

struct ChangeOptions {
  double false_alarms = 0.01;     ///< share of series without a change in which one is found
  double smallest_effect = 0.01;  ///< relative; smaller changes are not reported
  double confidence = 0.95;       ///< of the ratio's interval
  uint64_t seed = 0;              ///< of the permutations; the same seed and series give the same changes
};

/// The series' level changes at a point and stays changed.
struct Change {
  size_t index = 0;         ///< first point of the new level
  std::string date, label;  ///< of that point
  double before_ms = 0, after_ms = 0;
  double ratio = 1;          ///< after over before: above 1, slower
  double low = 1, high = 1;  ///< interval of the ratio
  double p_value = 1;        ///< of the permutation test
};

inline constexpr size_t kFewestPoints = 8;

/// In the order of the series; none for fewer than kFewestPoints.
std::vector<Change> find_changes(std::span<const SeriesPoint> series, const ChangeOptions& options = {});

}  // namespace gantry::cli
