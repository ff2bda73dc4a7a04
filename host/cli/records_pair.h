// Two programs that differ by what a record decides, measured in turns.
#pragma once

#include <string>

#include "host/cli/model_source.h"
#include "host/cli/records_verify.h"
#include "host/machine/target.h"

namespace gantry::cli {

/// A program by what is decided of it.
struct DecidedProgram {
  Contents module;
  std::string name;  ///< its decision, for messages
};

/// Of one work, or of a network.
struct ProgramPair {
  DecidedProgram base;   ///< as the compiler takes it by itself
  DecidedProgram other;  ///< as the record says
};

/// A record of the same work and decision, of now and of this generator, of which nothing is known yet.
/// `timed` as in Record.
records::Record again_of(const records::Record& record, const records::Setting& setting,
                         const Decision& baseline, const VerifyOptions& options, const std::string& timed);

void fail(records::Record& record, records::Outcome outcome, const std::string& reason);

/// Compares their results for the same made-up data, and measures both as `gantry compare` does: what came of
/// it is put into the record, of as many threads as that says. `tolerance`: the largest difference by the
/// largest result.
void measure_pair(records::Record& again, const ProgramPair& pair, double tolerance,
                  const VerifyOptions& options, const Invocation& invocation);

}  // namespace gantry::cli
