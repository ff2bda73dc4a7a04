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

/// Mean of the middle half of the sorted values; the two at its ends count in part, so that half the weight
/// is in it for every count (the interquartile mean). Must not be empty.
double middle_mean(std::span<const double> values);

/// The quantile `q`, 0 < q < 1, interpolated linearly between order statistics; nothing unless 5 samples are
/// expected beyond it on its thinner side: p50 from 10 samples, p90 from 50, p99 from 500. With fewer than
/// about that many, it is the largest few samples and nothing more (its order-statistic interval is open).
std::optional<double> percentile(std::span<const double> values, double q);

/// Mean of independent values, a share of kTrimmedShare of them cut off at each end (rounded down: none for
/// fewer than 8), with the variance from the winsorized sum of squares and h - 1 degrees of freedom, h values
/// being left (Tukey and McLaughlin, "Less vulnerable confidence and significance procedures for location",
/// Sankhya A 25, 1963). At least two values; constant ones have variance 0.
Estimate robust_mean(std::span<const double> values);
inline constexpr double kTrimmedShare = 0.125;

/// a - b of independent estimates; degrees of freedom by Welch and Satterthwaite (Welch, "The generalization
/// of Student's problem when several different population variances are involved", Biometrika 34, 1947).
Estimate difference(const Estimate& a, const Estimate& b);
/// `a` with an independent error of known variance added.
Estimate with_known_variance(Estimate a, double variance);

/// value -/+ Student's t quantile times the standard error, at a two-sided `confidence` in (0, 1).
Interval t_interval(const Estimate& estimate, double confidence);
/// The two-sided quantiles: the half-width of an interval in standard errors. Infinite degrees: the normal's.
double t_quantile(double confidence, double degrees);

}  // namespace gantry::cli
