// Is one program faster than another?
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "host/cli/statistics/samples.h"

namespace gantry::cli {

/// Medians of two segments next to each other in time (ms a run), one of each side.
struct SegmentPair {
  double base_ms = 0, other_ms = 0;
};
/// One process of each side, measured in turns.
struct Round {
  std::vector<SegmentPair> pairs;
};

struct CompareOptions {
  double smallest_effect = 0.01;  ///< relative; a smaller difference is not claimed
  double confidence = 0.95;       ///< of the interval, two-sided
};

/// Of the other against the base.
enum class Verdict {
  kFaster,
  kSlower,
  kSame,      ///< shown to lie within the smallest effect
  kNotShown,  ///< the measurement cannot tell
};
std::string_view verdict_name(Verdict verdict);

/// What made an interval wider than the scatter that was measured.
enum class Widening {
  kFewProcesses,          ///< fewer than 5 rounds or processes a side: Student's t is wide
  kAssumedProcessSpread,  ///< a side of one process: how much processes differ is assumed
  kExtraSpread,           ///< the caller's, for other circumstances
};
/// For people: "one process a side: …".
std::string_view widening_text(Widening widening);

struct Comparison {
  double base_median_ms = 0, other_median_ms = 0;  ///< medians over processes of the processes' medians
  double ratio = 1;                                ///< other over base: below 1, the other is faster
  double low = 1, high = 1;                        ///< its interval
  Verdict verdict = Verdict::kNotShown;
  size_t base_processes = 0, other_processes = 0;
  std::vector<Widening> widened;
};

/// Fewest rounds that an interval is made from.
inline constexpr size_t kFewestRounds = 3;

/// A live comparison.
Comparison compare_rounds(std::span<const Round> rounds, const CompareOptions& options = {});

/// Two results that were measured apart.
inline constexpr double kAssumedProcessSpread = 0.02;
Comparison compare_processes(std::span<const ProcessSamples> base, std::span<const ProcessSamples> other,
                             const CompareOptions& options = {}, double extra_spread = 0);

}  // namespace gantry::cli
