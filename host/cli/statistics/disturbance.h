// What was measured while something outside of the machine's sight used its cores, or moved them: another
// virtual machine on the core's other hardware thread, or on the same core; a hypervisor that has put two
// virtual cores where they share no cache. Neither the clock nor any counter shows it; pulses between the
// samples do (rpc::CorePulse).
//
// A pulse's value is a number of the machine's model while nobody disturbs and up to 40 % higher while
// somebody does, half as much again where the cores lie apart. What level that number is, is learned: it is
// the lowest that many pulses agree on, of this command or of former ones on the same machine. Samples beside
// a higher pulse do not count.
//
// That is no picking of good results: the pulse knows nothing of the program's time, samples are judged
// before anybody looks at them, and those of two programs by one rule. In simulations of identical programs
// on a machine that is disturbed for 10 to 90 % of the time, in stretches of 0.1 to 10 s, at most 2.8 % of
// comparisons claim a difference.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "host/cli/statistics/comparison.h"
#include "rpc/client/types.h"

namespace gantry::cli {

/// A sample is disturbed where the pulse before or after it exceeds the level by more than this. Undisturbed
/// ones never come near it; what delays a pulse by less delays a network by a few percent at most.
inline constexpr double kDisturbedExcess = 0.1;

/// Whether the pulse exceeds the level by more than that.
bool is_disturbed(const rpc::CorePulse& pulse, double level);

/// The level of undisturbed pulses: the lowest value that a tenth of them, and at least three, agree on
/// within 1 %. None where no tenth agrees: then the pulse itself scatters, or nearly all are disturbed, and
/// nothing can be said.
std::optional<double> level_of_pulses(std::span<const double> values);

/// The level that holds: that of the pulses now, or of former commands on the same machine where those saw a
/// lower one; of three former ones and more a lowest that no other agrees with within 2 % does not count.
/// None where neither is known.
std::optional<double> level_with_former(const std::optional<double>& now, std::span<const double> former);

/// Which samples are disturbed. `started_ms` rises and is of the pulses' clock; pulses are in the order of
/// time. Of no pulses, none is.
std::vector<bool> disturbed_samples(std::span<const double> started_ms,
                                    std::span<const rpc::CorePulse> pulses, double level);

/// Whether so many undisturbed samples of `all` say what a process takes: three and a tenth at least, where
/// there are as many.
bool enough_undisturbed(size_t undisturbed, size_t all);

/// One segment of a comparison.
struct JudgedSegment {
  double median_ms = 0;  ///< of all its samples
  std::optional<double>
      undisturbed_ms;  ///< of the undisturbed ones; none: they are less than half, or than 3
};
JudgedSegment judge_segment(std::span<const double> samples_ms, const std::vector<bool>& disturbed,
                            size_t first);

struct JudgedPair {
  JudgedSegment base, other;
};
using JudgedRound = std::vector<JudgedPair>;

/// What a comparison is made from.
struct RoundChoice {
  std::vector<Round> rounds;
  std::vector<bool> counts;  ///< of each round that was measured, whether it is among them
  bool uses_all = false;     ///< too few are undisturbed: all count, whole
};
/// Pairs whose two segments are both undisturbed, in rounds that have three of them (or all). All pairs of
/// all rounds where those are fewer than kFewestRounds.
RoundChoice choose_rounds(std::span<const JudgedRound> rounds);
/// How many of a round's pairs are undisturbed.
size_t undisturbed_pairs(const JudgedRound& round);

}  // namespace gantry::cli
