// What timed rounds say of a batch of trials.
#pragma once

#include <cstddef>
#include <vector>

#include "host/cli/tuned_round.h"
#include "host/tune/measurer.h"

namespace gantry::cli {

/// The ratios of the trials, and of the whole network, in milliseconds. `base` and `other`: each task's steps
/// in the two programs. Of fewer rounds than kFewestRounds, at least one, the intervals are assumed ones.
tune::Batch batch_of(const std::vector<TunedRound>& played, const std::vector<tune::Trial>& trials,
                     const std::vector<std::vector<size_t>>& base,
                     const std::vector<std::vector<size_t>>& other);

}  // namespace gantry::cli
