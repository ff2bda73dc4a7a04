// Locations with the uncertainty of each: what intervals of measurements are made from.
#pragma once

#include <optional>
#include <span>

namespace gantry::cli {

/// A location with the variance of the estimate (not of the sample).
struct Estimate {
  double value = 0;
  double variance = 0;
  double degrees = 0;  ///< degrees of freedom of `variance`; infinite where it is known or assumed
};

struct Interval {
  double low = 0, high = 0;
};

/// Middle of the sorted values, mean of the two middle ones for an even count. Must not be empty.
double median_of(std::span<const double> values);

/// Standard deviation of normally distributed values from the median distance to their median (Hampel, "The
/// influence curve and its role in robust estimation", JASA 69, 1974): values far off do not count. Must not
/// be empty.
double robust_deviation(std::span<const double> values);

/// The quantile `q`, 0 < q < 1, interpolated linearly between order statistics; nothing unless 5 samples are
/// expected beyond it (on its thinner side): p50 from 10 samples, p90 from 50, p99 from 500. With fewer it
/// would be the word of one or two samples.
std::optional<double> percentile(std::span<const double> values, double q);

/// Mean of independent values, from kFewestTrimmed on without the sixth of them (rounded down) that is lowest
/// and the sixth that is highest, so that a value which another program spoiled does not decide. Variance
/// from the winsorized sum of squares (Tukey and McLaughlin, "Less vulnerable confidence and significance
/// procedures for location on the basis of a single sample", Sankhya A 25, 1963). Degrees of freedom: where g
/// values are cut off at each end and h stay, h - 1 - g; the h - 1 of that paper errs in 5.5 % of normal
/// samples at 95 %. At least two values.
Estimate robust_mean(std::span<const double> values);
inline constexpr size_t kFewestTrimmed = 8;

/// a - b of independent estimates; degrees of freedom by Welch and Satterthwaite (Welch, "The generalization
/// of Student's problem when several different population variances are involved", Biometrika 34, 1947).
Estimate difference(const Estimate& a, const Estimate& b);
/// `a` with an independent error of known variance added.
Estimate with_known_variance(Estimate a, double variance);

/// The value, less and plus Student's t quantile times the standard error. `confidence` in (0, 1), two-sided,
/// is what holds for measurements that ended when they were precise enough: those stop rather where their
/// scatter happens to look small, so that the quantile is taken for (1 - confidence) * kStoppingAllowance.
/// See StopRule.
Interval t_interval(const Estimate& estimate, double confidence);
inline constexpr double kStoppingAllowance = 0.8;

/// Half the width of a two-sided interval in standard errors. Infinite degrees: the normal distribution's.
double t_quantile(double confidence, double degrees);

}  // namespace gantry::cli
