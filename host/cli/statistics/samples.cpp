#include "host/cli/statistics/samples.h"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <cmath>
#include <limits>

#include "host/support/error.h"
#include "host/support/words.h"

namespace gantry::cli {
namespace {

/// Degrees of freedom are no fewer, though 5 correlated samples are worth less than two: with 1.5 intervals
/// of few samples miss in 1 to 2 %, with 3 in up to 4.5 %.
constexpr double kFewestDegrees = 3;
constexpr double kFarDeviations = 3;
constexpr double kHighestCorrelation = 0.9;
constexpr double kBoundErrors = 1.282;  ///< one-sided 90 %

std::vector<double> logs_of(std::span<const double> times_ms, std::string_view what) {
  std::vector<double> logs;
  logs.reserve(times_ms.size());
  for (double ms : times_ms) {
    if (!(ms > 0) || !std::isfinite(ms)) user_error("{}: {} ms is not a time that a run can take", what, ms);
    logs.push_back(std::log(ms));
  }
  return logs;
}

/// Squared standard error of the median of independent samples: width of an interval between order statistics
/// over that of the normal distribution (Price and Bonett, "Estimating the variance of the sample median",
/// Journal of Statistical Computation and Simulation 68, 2001).
double median_variance(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  const double rank = std::max(1.0, std::round((count + 1) / 2 - std::sqrt(count)));
  // Chance that the true median lies below the interval: fewer than `rank` of `count` fair coins show heads.
  const double tail = cdf(boost::math::binomial(count, 0.5), rank - 1);
  const auto low = static_cast<size_t>(rank) - 1;
  const double width = values[values.size() - 1 - low] - values[low];
  const double standard_error =
      width / (2 * t_quantile(1 - 2 * tail, std::numeric_limits<double>::infinity()));
  return standard_error * standard_error;
}

/// Upper bound (90 %) of the correlation of neighbours. A slow sample now and then hides it: pairs with one
/// that is further than three deviations from the middle do not count.
double neighbours_correlation(std::span<const double> values) {
  const double middle = median_of(values);
  const double limit = kFarDeviations * robust_deviation(values);
  double products = 0, squares = 0, pairs = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    const double before = values[i - 1] - middle, after = values[i] - middle;
    if (std::max(std::abs(before), std::abs(after)) > limit) continue;
    products += before * after;
    squares += (before * before + after * after) / 2;
    ++pairs;
  }
  if (pairs == 0) return kHighestCorrelation;
  const double found = squares > 0 ? products / squares : 0;
  // Few values around their own middle look less correlated than they are (Marriott and Pope, "Bias in the
  // estimation of autocorrelations", Biometrika 41, 1954).
  const double unbiased = std::min(found + (1 + 3 * std::max(found, 0.0)) / pairs, kHighestCorrelation);
  const double error = std::sqrt((1 - unbiased * unbiased) / pairs);
  return std::clamp(unbiased + kBoundErrors * error, 0.0, kHighestCorrelation);
}

/// Variance of the mean of `count` values of an AR(1) process over that of one value.
double mean_variance_share(double count, double correlation) {
  double sum = 1, power = 1;
  for (double k = 1; k < count; ++k) {
    power *= correlation;
    sum += 2 * (1 - k / count) * power;
  }
  return sum / count;
}

}  // namespace

double log_median(std::span<const double> times_ms, std::string_view what) {
  if (times_ms.empty()) user_error("{} has no times", what);
  return median_of(logs_of(times_ms, what));
}

Estimate log_median_within(const ProcessSamples& process, std::string_view what) {
  const size_t samples = process.samples_ms.size();
  if (samples < kFewestSamples) {
    user_error("{} has {}; an interval needs at least {}: measure more, or in several processes", what,
               counted(samples, "sample"), kFewestSamples);
  }
  const std::vector<double> logs = logs_of(process.samples_ms, what);
  const auto count = static_cast<double>(samples);
  const double share = mean_variance_share(count, neighbours_correlation(logs));
  // The spread of correlated samples around their own middle is too small by 1 - share.
  const double inflation = share * (count - 1) / (1 - share);
  return {median_of(logs), median_variance(logs) * inflation, std::max(kFewestDegrees, 1 / share - 1)};
}

Spread spread_of(std::span<const double> values) {
  Spread spread;
  const auto count = static_cast<double>(values.size());
  spread.min = *std::min_element(values.begin(), values.end());
  for (double value : values) spread.mean += value / count;
  double squares = 0;
  for (double value : values) squares += (value - spread.mean) * (value - spread.mean);
  spread.stddev = values.size() > 1 ? std::sqrt(squares / (count - 1)) : 0;
  return spread;
}

}  // namespace gantry::cli
