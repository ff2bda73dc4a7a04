// `gantry records verify`: measures what records say again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host/cli/execution.h"
#include "host/cli/invocation.h"
#include "host/cli/turns/turn_options.h"
#include "host/records/store.h"

namespace gantry::cli {

/// What became of a record.
struct Verified {
  int64_t id = 0;
  std::optional<records::Record> again;  ///< what is added to the store; none: it could not be measured here
  std::string why;                       ///< it could not
};

struct VerifyOptions {
  std::string board, key;  ///< as of ExecutionOptions
  double duration_s = 10;  ///< of measuring a record
  TurnOptions turns;
  std::string model;       ///< of which records of networks are; empty: none
  /// With which it was tuned, as of ExecutionOptions.
  std::vector<std::string> shapes, sizes, custom_ops, kept_inputs;
};

/// Compiles the record's work by itself, or the model where it is of a network, by its decision and as the
/// compiler takes it now, compares results for the same made-up data, and measures both in turns on the
/// machine of the options, which reports `machine`, as `gantry compare` does. Errors: those of the machine.
Verified verify_record(const records::Record& record, records::Store& store, const rpc::BoardInfo& machine,
                       const VerifyOptions& options, const Invocation& invocation);

}  // namespace gantry::cli
