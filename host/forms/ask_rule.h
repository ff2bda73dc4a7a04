// Form::refused of forms whose rules say by themselves alone what fits: of tile units, and of GPUs.
#pragma once

#include "host/forms/form.h"

namespace gantry::forms {

/// Has the kernel of the node by itself scheduled as the decision says: what the rule says where it refuses a knob.
/// Weights are packed once for decisions that differ in the schedule alone and are asked about one after the other.
Misfit ask_rule(const FormCase& given);

}  // namespace gantry::forms
