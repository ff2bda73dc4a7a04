// The mean of measurements of which each says how far it can be trusted itself.
#pragma once

#include <span>

#include "host/cli/statistics/estimate.h"

namespace gantry::cli {

/// Mean of independent values, each with the variance of its own measurement (not negative, one a value, at
/// least kFewestTrimmed values; otherwise an internal error).
///
/// Weights. What a value's measurement does not show, such as processes that differ, is taken to scatter as
/// much as measurements do in the middle: 1 / (variance + median of the variances), which is how random
/// effects weigh studies (DerSimonian and Laird, "Meta-analysis in clinical trials", Controlled Clinical
/// Trials 7, 1986), with a variance between them that few values cannot be asked for. So no value weighs more
/// than twice as much as one in the middle, and one whose parts disagree hardly counts.
///
/// Outliers. A value counts the less the further off it lies, and not at all beyond kReach robust deviations:
/// Tukey's biweight (Mosteller and Tukey, "Data Analysis and Regression", 1977, chapter 10, which ends at
/// nine median distances: six deviations). Its variance is that of the estimating function over its squared
/// slope (Huber, "Robust Statistics", 1981, section 6.5). Degrees of freedom: as many values as the weights
/// are worth (Kish, "Survey Sampling", 1965), times the slope, which is the share of values that lie near,
/// less one. Simulated for 8 to 20 normal values a 95 % interval misses in 5.5 % at most.
Estimate weighted_mean(std::span<const double> values, std::span<const double> variances);
inline constexpr double kReach = 6;

}  // namespace gantry::cli
