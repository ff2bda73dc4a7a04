// What the filters of `gantry records` ask for.
#pragma once

#include <string>

#include "host/cli/records_actions.h"
#include "host/records/store.h"

namespace gantry::cli {

/// User errors for a beginning of a digest, or a date, that is none.
records::Filter filter_of(const RecordsOptions& options);

/// A user error, with the nearest ones that there are, for an op, target or precision that no record of the
/// store has and that gantry does not know: a slip, of which "no such records" would say nothing. Likewise,
/// with those that the store has, for a machine that none of its records is of, unless it has no records at
/// all.
void check_words(records::Store& store, const records::Filter& filter);

/// Of a filter that nothing passes: "lab.db: has no such records; none is of --threads 3, but of 2, 4".
std::string no_such_records(records::Store& store, const records::Filter& filter);

}  // namespace gantry::cli
