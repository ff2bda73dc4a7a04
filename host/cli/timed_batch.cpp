#include "host/cli/timed_batch.h"

#include <cmath>

#include "host/cli/statistics/comparison.h"
#include "host/cli/statistics/estimate.h"

namespace gantry::cli {
namespace {

/// By what processes of one program are assumed to differ (host/cli/statistics/comparison.h), of both sides
/// together.
void assume_interval(tune::Ratio& ratio) {
  const double spread = std::exp(1.96 * std::sqrt(2.0) * kAssumedProcessSpread);
  ratio.low = ratio.value / spread;
  ratio.high = ratio.value * spread;
}

tune::Ratio ratio_of(const std::vector<Round>& rounds) {
  tune::Ratio ratio;
  std::vector<double> ratios;
  for (const Round& round : rounds) {
    std::vector<double> base, other;
    for (const SegmentPair& pair : round.pairs) {
      base.push_back(pair.base_ms);
      other.push_back(pair.other_ms);
      ratios.push_back(pair.other_ms / pair.base_ms);
    }
    ratio.base_process_amounts.push_back(median_of(base));
    ratio.process_amounts.push_back(median_of(other));
  }
  ratio.base_amount = median_of(ratio.base_process_amounts);
  ratio.amount = median_of(ratio.process_amounts);
  if (rounds.size() < kFewestRounds) {
    ratio.value = median_of(ratios);
    assume_interval(ratio);
    return ratio;
  }
  const Comparison comparison = compare_rounds(rounds);
  ratio.value = comparison.ratio;
  ratio.low = comparison.low;
  ratio.high = comparison.high;
  return ratio;
}

}  // namespace

tune::Batch batch_of(const std::vector<TunedRound>& played, const std::vector<tune::Trial>& trials,
                     const std::vector<std::vector<size_t>>& base,
                     const std::vector<std::vector<size_t>>& other) {
  const auto ratio = [&](const auto& round_of) {
    std::vector<Round> rounds;
    for (const TunedRound& one : played) rounds.push_back(round_of(one));
    return ratio_of(rounds);
  };
  tune::Batch batch;
  for (const tune::Trial& trial : trials)
    batch.ratios.push_back(
        ratio([&](const TunedRound& one) { return one.of_steps(base[trial.task], other[trial.task]); }));
  batch.whole = ratio([](const TunedRound& one) { return one.whole(); });
  return batch;
}

}  // namespace gantry::cli
