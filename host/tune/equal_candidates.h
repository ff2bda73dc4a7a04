// How often a tuner errs: decisions about candidates that are equal to the best.
#pragma once

#include <cstddef>
#include <functional>

#include "host/tune/measurer.h"

namespace gantry::tune {

/// Nothing differs in what is compared, so each acceptance is an error. Of intervals of 95 % that have to lie
/// below 1, one of forty does.
struct EqualCandidates {
  size_t decisions = 0, accepted = 0;  ///< of tasks
  /// Of the whole network, one in each measurement.
  size_t networks = 0, networks_accepted = 0;
};

/// What every task has in `choices` against itself, as the tuner makes sure of candidates (Effort::kSure; an
/// interval that excludes all that gains less than `smallest_gain`), again and again until there are
/// `decisions` of tasks. Tasks of less than kLeastShare are not asked, as the tuner asks none. `progress` is
/// called before each measurement. Errors: the measurer's; a board error where a measurement fails.
EqualCandidates try_equal_candidates(Measurer& measurer, const Choices& choices, size_t decisions,
                                     double smallest_gain,
                                     const std::function<void(const EqualCandidates&)>& progress);

}  // namespace gantry::tune
