// `gantry records verify` of what was decided for a network as a whole.
#pragma once

#include <optional>

#include "host/cli/records_verify.h"
#include "host/machine/target.h"

namespace gantry::cli {

/// The model that the options name, with their sizes. User errors: those of import.
Graph verified_model(const VerifyOptions& options, Optimize optimize, const Invocation& invocation);

/// The record measured again, but for its date, in the model that the options name; none where the compiler
/// takes its decision by itself. User errors: those of import and compilation, and a model that is another
/// network.
std::optional<records::Record> measured_network(const records::Record& record,
                                                const records::Setting& setting, const Target& target,
                                                const VerifyOptions& options, const Invocation& invocation);

}  // namespace gantry::cli
