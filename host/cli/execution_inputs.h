// The inputs that a loaded module is run with: from files, from memory, and made up.
#pragma once

#include <vector>

#include "host/cli/execution.h"

namespace gantry::cli {

/// The inputs from files and from memory, the others made up in sizes that suit the module. `sizes`: what
/// --shape and --dim say of them. User errors: what they say that does not suit, and those of
/// gather_inputs().
std::vector<GivenInput> given_inputs(const Execution& execution, const ExecutionOptions& options,
                                     const GivenSizes& sizes);
/// User errors for what is said of made-up inputs where there are none.
void check_made_up_inputs(const ExecutionOptions& options, const GivenSizes& sizes,
                          const Execution& execution);
/// Says the sizes that nobody gave: a time or a result means little to who does not know them.
void note_chosen_sizes(const Execution& execution, const Invocation& invocation);

}  // namespace gantry::cli
