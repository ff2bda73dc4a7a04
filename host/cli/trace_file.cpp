#include "host/cli/trace_file.h"

#include <CLI/CLI.hpp>

#include "host/support/error.h"
#include "host/support/output_file.h"

namespace gantry::cli {

void add_trace_option(CLI::App& command, std::string& file, const std::string& shows) {
  command
      .add_option("--trace", file,
                  "Write " + shows + " over time: .pftrace for ui.perfetto.dev, .json for Chrome's viewer")
      ->type_name("FILE");
}

void begin_trace(const std::string& file, bool force, Invocation& invocation, const std::string& option) {
  if (file.empty()) return;
  expect_trace_format(file, option);
  invocation.outputs->writes(file, FileKind::kTrace, option, force);
  invocation.spans = std::make_shared<SpanRecorder>();
}

TraceProcess recorded_tracks(const Invocation& invocation, const std::string& command) {
  TraceProcess process = process_of(*invocation.spans, "gantry " + command, "main");
  if (const size_t lost = invocation.spans->left_out(); lost > 0)
    invocation.warn(fmt::format("--trace: {} spans came behind the first {} and are left out", lost,
                                SpanRecorder::kMostSpans));
  return process;
}

TraceFormat expect_trace_format(const std::string& file, const std::string& option) {
  if (const auto format = trace_format_of(file)) return *format;
  user_error("{} {}: its name says no format: end it in .pftrace (Perfetto) or .json (Chrome's trace events)",
             option, file);
}

void write_trace(const Trace& trace, const std::string& file, TraceFormat format) {
  write_file(file, encode_trace(trace, format));
}

}  // namespace gantry::cli
