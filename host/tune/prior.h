// What earlier runs of other networks tell a cost model before the first trial.
#pragma once

#include <vector>

#include "host/driver/compile.h"
#include "host/records/store.h"
#include "host/tune/cost_model.h"

namespace gantry::tune {

/// Examples from the records of works that were measured for the same target in the same precision, whatever
/// the machine, its threads and the version of the generator: a residual of a family of CPUs. `most`: as many
/// as are looked at, the newest works first; each is lowered once, and their groups are numbered from
/// `first_group` on. Works without a program in the store, and decisions that fit no longer, are left out.
/// Errors: those of the store.
std::vector<Example> examples_of(records::Store& store, const records::Setting& setting,
                                 const CompileOptions& options, size_t most, size_t first_group);

}  // namespace gantry::tune
