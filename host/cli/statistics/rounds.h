// What rounds are made of, those of `gantry compare` and those of the trials of `gantry tune`.
//
// compare: processes of one program differ by 1 to 2 %, segments of one process by less, so that rounds tell
// more than pairs do: five pairs a round, after a short warm-up, give one and a half times the rounds of
// eight in 30 s. Simulated where processes differ by 1.5 %, segments by 1 %, and the machine is disturbed for
// half of the time in stretches of 0.3 or 3 s, a difference of 3.3 % is found in 97 and 95 of 100
// comparisons; with eight pairs after 0.5 s in 90 and 88; programs alike are told apart in less than 5 %
// either way.
//
// tune: one quick round tells of the kernels of up to twelve tasks which candidates deserve more, so it is
// short; several thorough ones decide. A profile times single kernels: a request for a segment then takes its
// time twice, for runs as they are and for timed steps, and some traced runs.
#pragma once

#include <algorithm>
#include <cstddef>

namespace gantry::cli {

/// A process of each of two programs, whose segments take turns in pairs.
struct RoundShape {
  /// Of one program; short, so that both programs see the same machine; long beside what changing over costs.
  double segment_ms;
  /// A segment starts with caches that hold the other program's data, on threads that slept.
  double settle_ms;
  /// What all segments should take together.
  double together_ms;
  /// A round of slow programs takes longer for the first; programs whose segments last no longer than
  /// segment_ms have the second.
  size_t fewest_pairs, most_pairs;

  /// Of segments that take `taken_ms` (> 0) each.
  constexpr size_t pairs_of(double taken_ms) const {
    return static_cast<size_t>(std::clamp(together_ms / (2 * taken_ms), static_cast<double>(fewest_pairs),
                                          static_cast<double>(most_pairs)));
  }
};

/// Together about as long as a round's start and warm-up. A round of fewer pairs than these does not count.
inline constexpr RoundShape kComparedRound{
    .segment_ms = 50, .settle_ms = 5, .together_ms = 500, .fewest_pairs = 3, .most_pairs = 5};
/// Shorter segments than of a comparison, since each takes its time twice; one pair could be spoiled as a
/// whole, so there are two of the slowest programs, too.
inline constexpr RoundShape kQuickTrial{
    .segment_ms = 40, .settle_ms = 5, .together_ms = 600, .fewest_pairs = 2, .most_pairs = 3};
/// Half as long again, for as many pairs as compare has.
inline constexpr RoundShape kThoroughTrial{
    .segment_ms = 40, .settle_ms = 5, .together_ms = 900, .fewest_pairs = 2, .most_pairs = 5};

/// The sides' first warm-up in a comparison, ms at most, and those of later rounds: the machine has been at
/// work since then, and the other side is as warm, so that a trend that is left touches both.
inline constexpr double kFirstRoundWarmUpMs = 2500, kLaterRoundWarmUpMs = 250;
/// Of each side of a trial: the machine is at work all the time, and what is left touches both.
inline constexpr double kTrialWarmUpMs = 80;

/// A round of a comparison whose pairs are disturbed goes on until it has as many others, or so many times as
/// many in all.
inline constexpr size_t kMostExtra = 3;

}  // namespace gantry::cli
