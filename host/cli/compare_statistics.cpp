#include "host/cli/compare_statistics.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "host/support/error.h"
#include "host/support/random.h"

namespace gantry::cli {
namespace {

constexpr int kResamples = 4000;
constexpr double kTail = 0.025;

/// Median of one resample, drawn in blocks of neighbours into `scratch`.
double resampled_median(std::span<const double> values, size_t block, Random& random,
                        std::vector<double>& scratch) {
  const size_t count = values.size();
  scratch.clear();
  while (scratch.size() < count) {
    const auto start = static_cast<size_t>(random.uniform() * static_cast<double>(count));
    for (size_t i = 0; i < block && scratch.size() < count; ++i)
      scratch.push_back(values[(start + i) % count]);
  }
  const auto middle = scratch.begin() + static_cast<std::ptrdiff_t>(count / 2);
  std::nth_element(scratch.begin(), middle, scratch.end());
  if (count % 2 == 1) return *middle;
  return (*middle + *std::max_element(scratch.begin(), middle)) / 2;
}

size_t block_length(size_t count) {
  return std::max<size_t>(1, static_cast<size_t>(std::lround(std::cbrt(static_cast<double>(count)))));
}

void check(std::span<const double> samples, const char* which) {
  if (samples.size() < kFewestSamples) {
    user_error(
        "the {} result has {} samples; a comparison needs at least {}: run bench with a larger --repeat",
        which, samples.size(), kFewestSamples);
  }
  if (!(median_of(samples) > 0)) user_error("the {} result's median is not a positive time", which);
}

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kFaster:
      return "faster";
    case Verdict::kSlower:
      return "slower";
    case Verdict::kNoDifference:
      break;
  }
  return "no difference";
}

double percentile_of(std::span<const double> values, double fraction) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

double median_of(std::span<const double> values) {
  return percentile_of(values, 0.5);
}

Comparison compare_samples(std::span<const double> base, std::span<const double> other, uint64_t seed) {
  check(base, "first");
  check(other, "second");
  Comparison result;
  result.base_median = median_of(base);
  result.other_median = median_of(other);
  result.ratio = result.other_median / result.base_median;

  Random random(seed, "compare");
  std::vector<double> ratios, scratch;
  ratios.reserve(kResamples);
  for (int i = 0; i < kResamples; ++i) {
    const double base_median = resampled_median(base, block_length(base.size()), random, scratch);
    const double other_median = resampled_median(other, block_length(other.size()), random, scratch);
    ratios.push_back(other_median / base_median);
  }
  result.low = percentile_of(ratios, kTail);
  result.high = percentile_of(ratios, 1 - kTail);
  if (result.high < 1) result.verdict = Verdict::kFaster;
  if (result.low > 1) result.verdict = Verdict::kSlower;
  return result;
}

}  // namespace gantry::cli
