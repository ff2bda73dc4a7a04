// What the filters of `gantry records` ask for.
#pragma once

#include "host/cli/records_actions.h"
#include "host/records/store.h"

namespace gantry::cli {

/// User errors for a beginning of a digest, or a date, that is none.
records::Filter filter_of(const RecordsOptions& options);

/// A user error, with the nearest ones that there are, for an op, target or precision that no record of the
/// store has and that gantry does not know: a slip, of which "no such records" would say nothing.
void check_words(records::Store& store, const records::Filter& filter);

}  // namespace gantry::cli
