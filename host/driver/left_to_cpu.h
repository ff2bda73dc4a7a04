// Programs of a GPU target that the CPU beside the GPU runs.
#pragma once

#include <string>

#include "host/graph/graph.h"
#include "host/machine/target.h"

namespace gantry {

/// Why the CPU beside a GPU runs all of a program, whose main function this is before any pass: in words;
/// empty: it does not. A plan that goes on when values are known does not reach into a GPU's memory so far.
std::string why_left_to_cpu(const Function& main, const Target& target);
/// That CPU, under the name of the target, by which decisions are given: passes are for it.
Target cpu_by_name_of(const Target& target);

}  // namespace gantry
