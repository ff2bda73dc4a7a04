#include "host/cli/statistics/changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "host/cli/statistics/samples.h"
#include "host/support/random.h"

namespace gantry::cli {
namespace {

constexpr size_t kFewestInLevel = 4;
constexpr int kPermutations = 999;
constexpr double kClipDeviations = 3.5;
constexpr double kRounding = 1e-9;

struct Split {
  size_t at = 0;  ///< points before it
  double statistic = -1;
};

/// Energy distances between neighbouring stretches of values, in any order of these.
class EnergySplit {
 public:
  /// The split that separates a beginning from the stretch after it best.
  Split best(std::span<const double> values);

 private:
  double& sum(size_t i, size_t j) { return sums_[i * (count_ + 1) + j]; }
  /// Sum of distances between [a, b) and [c, d).
  double between(size_t a, size_t b, size_t c, size_t d) {
    return sum(b, d) - sum(a, d) - sum(b, c) + sum(a, c);
  }

  size_t count_ = 0;
  std::vector<double> sums_;  ///< of distances between the first i and the first j values
};

Split EnergySplit::best(std::span<const double> values) {
  count_ = values.size();
  sums_.assign((count_ + 1) * (count_ + 1), 0);
  for (size_t i = 0; i < count_; ++i) {
    double row = 0;
    for (size_t j = 0; j < count_; ++j) {
      row += std::abs(values[i] - values[j]);
      sum(i + 1, j + 1) = sum(i, j + 1) + row;
    }
  }
  Split best;
  for (size_t at = kFewestInLevel; at + kFewestInLevel <= count_; ++at) {
    const auto n = static_cast<double>(at);
    const double within_before = between(0, at, 0, at) / (n * (n - 1));
    for (size_t end = at + kFewestInLevel; end <= count_; ++end) {
      const auto m = static_cast<double>(end - at);
      const double within_after = between(at, end, at, end) / (m * (m - 1));
      const double distance = 2 * between(0, at, at, end) / (n * m) - within_before - within_after;
      const double statistic = n * m / (n + m) * distance;
      if (statistic > best.statistic) best = {at, statistic};
    }
  }
  return best;
}

class Divider {
 public:
  explicit Divider(const ChangeOptions& options) : options_(options), random_(options.seed, "changes") {}

  /// Appends the changes within `values`, which begin at point `offset`.
  void divide(std::span<const double> values, size_t offset, std::vector<Change>& changes);

 private:
  /// 1 where the split is soon seen not to be significant.
  double p_value(std::span<const double> values, double statistic);

  const ChangeOptions& options_;
  Random random_;
  EnergySplit energy_;
};

double Divider::p_value(std::span<const double> values, double statistic) {
  const int most = static_cast<int>(options_.false_alarms * (kPermutations + 1)) - 1;
  std::vector<double> shuffled(values.begin(), values.end());
  int exceeding = 0;
  for (int i = 0; i < kPermutations; ++i) {
    for (size_t k = shuffled.size(); k > 1; --k)
      std::swap(shuffled[k - 1], shuffled[static_cast<size_t>(random_.uniform() * static_cast<double>(k))]);
    // The same split in another order counts, though its sums round otherwise.
    if (energy_.best(shuffled).statistic >= statistic * (1 - kRounding) && ++exceeding > most) return 1;
  }
  return (exceeding + 1.0) / (kPermutations + 1.0);
}

void Divider::divide(std::span<const double> values, size_t offset, std::vector<Change>& changes) {
  if (values.size() < 2 * kFewestInLevel) return;
  const Split split = energy_.best(values);
  const double p = p_value(values, split.statistic);
  if (p > options_.false_alarms) return;
  divide(values.first(split.at), offset, changes);
  Change change;
  change.index = offset + split.at;
  change.p_value = p;
  changes.push_back(change);
  divide(values.subspan(split.at), offset + split.at, changes);
}

std::vector<double> log_levels(std::span<const SeriesPoint> series) {
  std::vector<double> levels;
  levels.reserve(series.size());
  for (const SeriesPoint& point : series) {
    levels.push_back(log_median(point.process_medians_ms,
                                fmt::format("the series' point of {} ({})", point.date, point.label)));
  }
  return levels;
}

/// Single points far away are pulled in, so that they neither look like a level nor hide one.
std::vector<double> clipped(std::vector<double> values) {
  const double middle = median_of(values), limit = kClipDeviations * robust_deviation(values);
  if (limit > 0)
    for (double& value : values) value = std::clamp(value, middle - limit, middle + limit);
  return values;
}

/// Sets the sizes of all changes from the levels between them.
void measure(std::vector<Change>& changes, std::span<const double> levels, double confidence) {
  for (size_t i = 0; i < changes.size(); ++i) {
    const size_t begin = i == 0 ? 0 : changes[i - 1].index, at = changes[i].index;
    const size_t end = i + 1 == changes.size() ? levels.size() : changes[i + 1].index;
    const Estimate before = robust_mean(levels.subspan(begin, at - begin));
    const Estimate after = robust_mean(levels.subspan(at, end - at));
    const Estimate step = difference(after, before);
    const Interval interval = t_interval(step, confidence);
    changes[i].before_ms = std::exp(before.value);
    changes[i].after_ms = std::exp(after.value);
    changes[i].ratio = std::exp(step.value);
    changes[i].low = std::exp(interval.low);
    changes[i].high = std::exp(interval.high);
  }
}

}  // namespace

std::vector<Change> find_changes(std::span<const SeriesPoint> series, const ChangeOptions& options) {
  const std::vector<double> levels = log_levels(series);
  std::vector<Change> changes;
  if (levels.size() < kFewestPoints) return changes;
  Divider(options).divide(clipped(levels), 0, changes);
  while (!changes.empty()) {
    measure(changes, levels, options.confidence);
    const auto smallest =
        std::min_element(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
          return std::abs(std::log(a.ratio)) < std::abs(std::log(b.ratio));
        });
    if (std::abs(smallest->ratio - 1) >= options.smallest_effect) break;
    changes.erase(smallest);
  }
  for (Change& change : changes) {
    change.date = series[change.index].date;
    change.label = series[change.index].label;
  }
  return changes;
}

}  // namespace gantry::cli
