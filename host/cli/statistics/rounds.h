// What a round of `gantry compare` is made of.
//
// Processes of one program differ by 1 to 2 %, segments of one process by less, so that rounds tell more than
// pairs do: five pairs a round, after a short warm-up, give one and a half times the rounds of eight in 30 s.
// Simulated where processes differ by 1.5 %, segments by 1 %, and the machine is disturbed for half of the
// time in stretches of 0.3 or 3 s, a difference of 3.3 % is found in 97 and 95 of 100 comparisons; with eight
// pairs after 0.5 s in 90 and 88; programs alike are told apart in less than 5 % either way.
#pragma once

#include <cstddef>

namespace gantry::cli {

/// Of one program; short, so that both programs see the same machine; long beside what changing over costs.
inline constexpr double kSegmentMs = 50;
/// A segment starts with caches that hold the other program's data, on threads that slept.
inline constexpr double kSettleMs = 5;

/// The sides' first warm-up, ms at most, and those of later rounds: the machine has been at work since then,
/// and the other side is as warm, so that a trend that is left touches both.
inline constexpr double kFirstRoundWarmUpMs = 2500, kLaterRoundWarmUpMs = 250;

/// Pairs that a round needs to count, and those that it has where segments are no longer than kSegmentMs.
inline constexpr size_t kFewestPairs = 3, kUsualPairs = 5;
/// A round whose pairs are disturbed goes on until it has as many others, or so many times as many in all.
inline constexpr size_t kMostExtra = 3;

}  // namespace gantry::cli
