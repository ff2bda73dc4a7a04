#include "host/cli/statistics/disturbance.h"

#include <algorithm>

#include "host/cli/statistics/estimate.h"
#include "host/cli/statistics/rounds.h"

namespace gantry::cli {
namespace {

constexpr double kAgreement = 0.01, kFormerAgreement = 0.02;
constexpr size_t kFewestAgreeing = 3;
/// Of pulses, samples: one in so many.
constexpr size_t kTenth = 10;
constexpr size_t kFewestUndisturbed = 3;

size_t rounded_up(size_t count, size_t parts) {
  return (count + parts - 1) / parts;
}

}  // namespace

std::optional<double> level_of_pulses(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const size_t wanted = std::max(kFewestAgreeing, rounded_up(sorted.size(), kTenth));
  for (size_t i = 0; i + wanted <= sorted.size(); ++i) {
    if (sorted[i + wanted - 1] <= sorted[i] * (1 + kAgreement)) return sorted[i + wanted / 2];
  }
  return std::nullopt;
}

std::optional<double> level_with_former(const std::optional<double>& now, std::span<const double> former) {
  std::vector<double> sorted(former.begin(), former.end());
  std::ranges::sort(sorted);
  std::optional<double> lowest;
  if (!sorted.empty()) lowest = sorted.front();
  for (size_t i = 0; sorted.size() >= kFewestAgreeing && i + 1 < sorted.size(); ++i) {
    if (sorted[i + 1] > sorted[i] * (1 + kFormerAgreement)) continue;
    lowest = sorted[i];
    break;
  }
  if (now && lowest) return std::min(*now, *lowest);
  return now ? now : lowest;
}

bool is_disturbed(const rpc::CorePulse& pulse, double level) {
  return pulse.value > level * (1 + kDisturbedExcess);
}

std::vector<bool> disturbed_samples(std::span<const double> started_ms,
                                    std::span<const rpc::CorePulse> pulses, double level) {
  std::vector<bool> disturbed(started_ms.size(), false);
  size_t after = 0;  // the first pulse that comes after the sample's start
  for (size_t i = 0; i < started_ms.size(); ++i) {
    while (after < pulses.size() && pulses[after].at_ms <= started_ms[i]) ++after;
    disturbed[i] = (after > 0 && is_disturbed(pulses[after - 1], level)) ||
                   (after < pulses.size() && is_disturbed(pulses[after], level));
  }
  return disturbed;
}

bool enough_undisturbed(size_t undisturbed, size_t all) {
  return undisturbed >= std::min(all, std::max(kFewestUndisturbed, rounded_up(all, kTenth)));
}

JudgedSegment judge_segment(std::span<const double> samples_ms, const std::vector<bool>& disturbed,
                            size_t first) {
  std::vector<double> undisturbed;
  for (size_t i = 0; i < samples_ms.size(); ++i) {
    if (disturbed.empty() || !disturbed[first + i]) undisturbed.push_back(samples_ms[i]);
  }
  JudgedSegment segment{median_of(samples_ms), std::nullopt};
  const size_t wanted =
      std::min(samples_ms.size(), std::max(kFewestUndisturbed, rounded_up(samples_ms.size(), 2)));
  if (undisturbed.size() >= wanted) segment.undisturbed_ms = median_of(undisturbed);
  return segment;
}

size_t undisturbed_pairs(const JudgedRound& round) {
  return static_cast<size_t>(std::ranges::count_if(
      round, [](const JudgedPair& pair) { return pair.base.undisturbed_ms && pair.other.undisturbed_ms; }));
}

RoundChoice choose_rounds(std::span<const JudgedRound> rounds) {
  RoundChoice choice;
  for (const JudgedRound& judged : rounds) {
    Round round;
    for (const JudgedPair& pair : judged) {
      if (pair.base.undisturbed_ms && pair.other.undisturbed_ms)
        round.pairs.push_back({*pair.base.undisturbed_ms, *pair.other.undisturbed_ms});
    }
    choice.counts.push_back(round.pairs.size() >= std::min(judged.size(), kComparedRound.fewest_pairs));
    if (choice.counts.back()) choice.rounds.push_back(std::move(round));
  }
  choice.uses_all = choice.rounds.size() < std::min(rounds.size(), kFewestRounds);
  if (!choice.uses_all) return choice;
  choice.counts.assign(rounds.size(), true);
  choice.rounds.clear();
  for (const JudgedRound& judged : rounds) {
    Round& round = choice.rounds.emplace_back();
    for (const JudgedPair& pair : judged) round.pairs.push_back({pair.base.median_ms, pair.other.median_ms});
  }
  return choice;
}

}  // namespace gantry::cli
