// The files of `gantry trace` and of --trace.
#pragma once

#include <string>

#include "host/cli/invocation.h"
#include "host/trace/trace.h"

namespace CLI {
class App;
}

namespace gantry::cli {

/// --trace FILE of a command: `shows` says what is in it.
void add_trace_option(CLI::App& command, std::string& file, const std::string& shows);
/// Where `file` is given: checks that it can be written and names a format, and begins to record. To be
/// called before the command's work. `option`: what errors call it.
void begin_trace(const std::string& file, bool force, Invocation& invocation,
                 const std::string& option = "--trace");
/// What was recorded, as the tracks of the command of that name.
TraceProcess recorded_tracks(const Invocation& invocation, const std::string& command);

/// The format that a file's name asks for; user error where it asks for none.
TraceFormat expect_trace_format(const std::string& file, const std::string& option);
void write_trace(const Trace& trace, const std::string& file, TraceFormat format);

}  // namespace gantry::cli
