// Which decisions that fit a node the rule refuses that schedules its kernel.
#pragma once

#include "host/forms/form.h"

namespace gantry {

/// Has the kernel of the node by itself scheduled as the decision says: what the rule says where it refuses a
/// knob. Weights are packed once for decisions that differ in the schedule alone and are asked about one
/// after the other.
Misfit ask_rule(const forms::FormCase& given);

/// Of a decision that fits the node (FormSet::misfit), as far as its form says it by a predicate
/// (Form::refused), or by the rule itself where the form leaves it to that (Form::asks_rule); none where it
/// gives no knob of the schedule.
Misfit refused_by_rule(const FormQuestion& question, const Decision& decision,
                       const forms::FormContext& context);

}  // namespace gantry
