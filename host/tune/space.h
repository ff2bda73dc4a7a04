// The ways in which a node may be computed, from the forms that there are for it.
#pragma once

#include "host/forms/form.h"
#include "host/tune/task.h"

namespace gantry::tune {

/// Values of a range that are tried: all of a short one, else those that grow by about a quarter each.
std::vector<int64_t> values_of(const forms::KnobRange& range);

/// Decisions that read and write images in the same order as `untuned` does: so no conversion between orders
/// comes or goes behind one, and in front of it only that of images which its form does not convert itself.
/// They are those that the rule takes which schedules the node's kernel (refused_by_rule), and knobs have the
/// values that some of them have. `question` and `context` must outlive it; one thread asks.
Space space_of(const FormQuestion& question, const forms::FormContext& context, const Decision& untuned);

/// The other orders that forms propose something for.
std::vector<OtherLayout> layouts_of(const FormQuestion& question, const forms::FormContext& context,
                                    const Decision& untuned);

}  // namespace gantry::tune
