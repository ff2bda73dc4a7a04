// A trace: what happened when on which track, and counters over time. For ui.perfetto.dev and
// chrome://tracing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/support/span_recorder.h"

namespace gantry {

/// Slices of a thread. Sorted by begin, an outer one before those in it; a slice lies within another or
/// beside it. What reaches over the end of the slice that it begins in is cut off there.
struct TraceTrack {
  std::string name;
  std::vector<Span> spans;
};

struct TraceCounter {
  struct Value {
    int64_t at_ns = 0;
    double value = 0;
  };
  std::string name, unit;  ///< unit: "MHz"
  std::vector<Value> values;
};

/// A group of tracks.
struct TraceProcess {
  std::string name;
  std::vector<TraceTrack> tracks;
  std::vector<TraceCounter> counters;
};

struct Trace {
  std::vector<TraceProcess> processes;
};

enum class TraceFormat : uint8_t {
  kPerfetto,  ///< Perfetto's protocol buffers
  kChrome,    ///< Chrome's trace events, JSON
};
/// "perfetto" or "chrome"; a user error for others, which names `option`.
TraceFormat find_trace_format(const std::string& name, const std::string& option);
/// By the file's name: .pftrace, .perfetto-trace; .json. None for others.
std::optional<TraceFormat> trace_format_of(const std::string& file);

/// The file's content.
std::string encode_trace(const Trace& trace, TraceFormat format);
/// Whether a file that begins so is such JSON: encode_trace begins so.
inline constexpr std::string_view kChromeTraceBegin = "{\"traceEvents\":[";

/// A step in the drawing of a track: a slice begins, or the innermost ends.
struct TraceEdge {
  const Span* begins = nullptr;  ///< null: ends
  int64_t at_ns = 0;
};
/// A track as begins and ends, in the order of time, each end after what began within.
std::vector<TraceEdge> edges_of(const TraceTrack& track);

/// What a recorder has seen, a track for each of its lanes: `main` is the first one's name, others are
/// "worker 1", ….
TraceProcess process_of(SpanRecorder& recorder, const std::string& name, const std::string& main);

}  // namespace gantry
