#include "host/trace/trace.h"

#include <algorithm>
#include <array>
#include <utility>

#include "host/support/error.h"
#include "host/support/suggest.h"
#include "host/trace/encode.h"

namespace gantry {
namespace {

constexpr std::pair<std::string_view, TraceFormat> kFormats[] = {{"perfetto", TraceFormat::kPerfetto},
                                                                 {"chrome", TraceFormat::kChrome}};
constexpr std::pair<std::string_view, TraceFormat> kEndings[] = {{".pftrace", TraceFormat::kPerfetto},
                                                                 {".perfetto-trace", TraceFormat::kPerfetto},
                                                                 {".json", TraceFormat::kChrome}};

}  // namespace

TraceFormat find_trace_format(const std::string& name, const std::string& option) {
  std::vector<std::string> names;
  for (const auto& [known, format] : kFormats) {
    if (name == known) return format;
    names.emplace_back(known);
  }
  user_error("{} {}: is neither perfetto nor chrome{}", option, name, did_you_mean(name, names));
}

std::optional<TraceFormat> trace_format_of(const std::string& file) {
  for (const auto& [ending, format] : kEndings) {
    if (file.ends_with(ending)) return format;
  }
  return std::nullopt;
}

std::string encode_trace(const Trace& trace, TraceFormat format) {
  return format == TraceFormat::kPerfetto ? encode_perfetto(trace) : encode_chrome(trace);
}

std::vector<TraceEdge> edges_of(const TraceTrack& track) {
  std::vector<TraceEdge> edges;
  std::vector<int64_t> open;  // ends of those that the next one lies in
  int64_t now = 0;
  const auto close_until = [&](int64_t time) {
    while (!open.empty() && open.back() <= time) {
      edges.push_back({nullptr, open.back()});
      open.pop_back();
    }
  };
  for (const Span& span : track.spans) {
    now = std::max(now, span.begin_ns);
    close_until(now);
    edges.push_back({&span, now});
    int64_t end = std::max(span.end_ns, now);
    if (!open.empty()) end = std::min(end, open.back());
    open.push_back(end);
  }
  while (!open.empty()) close_until(open.back());
  return edges;
}

TraceProcess process_of(SpanRecorder& recorder, const std::string& name, const std::string& main) {
  TraceProcess process{name, {}, {}};
  for (std::vector<Span>& lane : recorder.take()) {
    const size_t index = process.tracks.size();
    process.tracks.push_back({index == 0 ? main : fmt::format("worker {}", index), std::move(lane)});
  }
  return process;
}

}  // namespace gantry
