#include <algorithm>
#include <nlohmann/json.hpp>

#include "host/trace/encode.h"

namespace gantry {
namespace {

using Json = nlohmann::ordered_json;

/// Chrome's unit; a double holds the nanoseconds of three months exactly.
double microseconds(int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1e3;
}

class Writer {
 public:
  std::string write(const Trace& trace) {
    for (const TraceProcess& process : trace.processes) add_process(process);
    return text_ + "\n],\"displayTimeUnit\":\"ns\"}\n";
  }

 private:
  void add(const Json& event) {
    text_ += first_ ? "\n" : ",\n";
    text_ += event.dump(-1, ' ', false, Json::error_handler_t::replace);
    first_ = false;
  }
  Json event(const char* phase, const std::string& name) const {
    return {{"ph", phase}, {"name", name}, {"pid", pid_}};
  }
  void add_name(const char* what, const std::string& name, const char* order, int64_t tid, int64_t place) {
    Json named = event("M", what);
    named["tid"] = tid;
    named["args"] = {{"name", name}};
    add(named);
    Json sorted = event("M", order);
    sorted["tid"] = tid;
    sorted["args"] = {{"sort_index", place}};
    add(sorted);
  }

  void add_process(const TraceProcess& process) {
    ++pid_;
    add_name("process_name", process.name, "process_sort_index", 0, pid_);
    for (const TraceTrack& track : process.tracks) add_track(track);
    for (const TraceCounter& counter : process.counters) add_counter(counter);
  }

  /// Slices with their times, which edges_of has made fit.
  void add_track(const TraceTrack& track) {
    const int64_t tid = ++tid_;
    add_name("thread_name", track.name, "thread_sort_index", tid, tid);
    struct Slice {
      const Span* span;
      int64_t begin_ns, end_ns;
    };
    std::vector<Slice> slices;
    std::vector<size_t> open;
    for (const TraceEdge& edge : edges_of(track)) {
      if (edge.begins != nullptr) {
        open.push_back(slices.size());
        slices.push_back({edge.begins, edge.at_ns, edge.at_ns});
      } else {
        slices[open.back()].end_ns = edge.at_ns;
        open.pop_back();
      }
    }
    for (const Slice& slice : slices) add_slice(*slice.span, slice.begin_ns, slice.end_ns, tid);
  }

  void add_slice(const Span& span, int64_t begin_ns, int64_t end_ns, int64_t tid) {
    Json slice = event("X", span.name);
    slice["cat"] = span.category;
    slice["tid"] = tid;
    slice["ts"] = microseconds(begin_ns);
    slice["dur"] = microseconds(end_ns - begin_ns);
    Json arguments = Json::object();
    for (const auto& [name, value] : span.arguments)
      std::visit([&](const auto& shown) { arguments[name] = shown; }, value);
    if (!arguments.empty()) slice["args"] = std::move(arguments);
    add(slice);
  }

  void add_counter(const TraceCounter& counter) {
    for (const TraceCounter::Value& value : counter.values) {
      Json sample = event("C", counter.name);
      sample["tid"] = 0;
      sample["ts"] = microseconds(std::max<int64_t>(value.at_ns, 0));
      sample["args"] = {{counter.unit, value.value}};
      add(sample);
    }
  }

  std::string text_{kChromeTraceBegin};
  bool first_ = true;
  int64_t pid_ = 0, tid_ = 0;
};

}  // namespace

std::string encode_chrome(const Trace& trace) {
  return Writer().write(trace);
}

}  // namespace gantry
