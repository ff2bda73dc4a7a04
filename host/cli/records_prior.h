// `gantry records train-prior`: makes a cost model's prior of records.
#pragma once

#include "host/cli/invocation.h"
#include "host/cli/records_actions.h"

namespace gantry::cli {

/// Returns the exit code. Errors: those of the store, of tune::train_prior and of the files.
int train_prior(const RecordsOptions& options, const Invocation& invocation);

}  // namespace gantry::cli
