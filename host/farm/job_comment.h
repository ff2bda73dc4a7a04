// What a lease's job lets its client know.
#pragma once

#include <functional>

#include "host/farm/lease_machine.h"
#include "host/farm/slurm.h"

namespace gantry::farm {

/// Writes the job's comment as soon as the controller takes it, while `wanted`; gives up where it refuses
/// that again and again.
void tell_client(Slurm& slurm, JobId job, const LeaseComment& comment, const std::function<bool()>& wanted);

}  // namespace gantry::farm
