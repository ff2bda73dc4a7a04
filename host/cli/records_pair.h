// Two programs that differ by what a record decides, measured in turns.
#pragma once

#include <functional>
#include <optional>
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

/// Two programs on a machine, each in a process of its own: `run` starts one where there is none.
struct TwoProcesses {
  std::function<void()> run_first, run_second, end_first, end_second;
};

/// Why the second program ends without a result, in the board's words; none: both have run. It is blamed
/// where it fails by itself, too, and the first runs behind it: a board that lacks memory has too little for
/// two programs at once, or for either. Errors: those of the functions, but for what the second is blamed
/// for; a Shortage where it runs by itself and not beside the first.
std::optional<std::string> crash_of_second(const TwoProcesses& processes);

/// Compares their results for the same made-up data, and measures both as `gantry compare` does: what came of
/// it is put into the record, of as many threads as that says. `tolerance`: the largest difference by the
/// largest result.
void measure_pair(records::Record& again, const ProgramPair& pair, double tolerance,
                  const VerifyOptions& options, const Invocation& invocation);

}  // namespace gantry::cli
