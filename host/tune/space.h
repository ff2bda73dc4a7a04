// The ways in which a node may be computed, from the forms that there are for it.
#pragma once

#include "host/forms/form.h"
#include "host/tune/task.h"

namespace gantry::tune {

/// Values of a range that are tried: all of a short one, else those that grow by about a quarter each.
std::vector<int64_t> values_of(const forms::KnobRange& range);

/// Decisions that read and write images in the same order as `untuned` does: so no conversion between orders
/// comes or goes with one. What `question` and `context` refer to must outlive it.
Space space_of(const FormQuestion& question, const forms::FormContext& context, const Decision& untuned);

}  // namespace gantry::tune
