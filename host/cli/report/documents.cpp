#include "host/cli/report/documents.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <span>

#include "host/cli/report/page_parts.h"
#include "host/cli/report/schema_check.h"
#include "host/support/error.h"
#include "host/support/input_file.h"

namespace gantry::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Deeper than any result; JSON of any depth would exhaust the stack of whoever walks over it.
constexpr int kDeepest = 64;

/// What the page cannot do without, of what version 2 has had from its beginning or what came with the part.
constexpr std::string_view kNeeded[] = {"kernels[].step",
                                        "kernels[].name",
                                        "kernels[].nodes",
                                        "kernels[].total_ms",
                                        "kernels[].flops",
                                        "kernels[].bytes",
                                        "processes[].samples_ms",
                                        "processes[].readings",
                                        "processes[].readings[].at_ms",
                                        "program.values",
                                        "program.values[].id",
                                        "program.values[].kind",
                                        "program.steps",
                                        "program.steps[].step",
                                        "program.steps[].name",
                                        "program.steps[].nodes",
                                        "timeline.run_ms",
                                        "timeline.threads",
                                        "timeline.threads[].name",
                                        "timeline.steps",
                                        "timeline.steps[].step",
                                        "timeline.steps[].begin_us",
                                        "timeline.steps[].end_us",
                                        "timeline.spans"};

Json schema_of(std::span<const PagePart> parts) {
  return Json::parse(parts[0].text());
}

/// The same of a comparison.
constexpr std::string_view kNeededOfComparisons[] = {"first.name",
                                                     "first.median_ms",
                                                     "first.processes",
                                                     "first.samples",
                                                     "second.name",
                                                     "second.median_ms",
                                                     "second.processes",
                                                     "second.samples",
                                                     "confidence",
                                                     "smallest_effect",
                                                     "interleaved",
                                                     "widened",
                                                     "warnings",
                                                     "history.file",
                                                     "history.series",
                                                     "history.points",
                                                     "history.changes",
                                                     "history.changes[].date",
                                                     "history.changes[].label",
                                                     "history.changes[].before_ms",
                                                     "history.changes[].after_ms",
                                                     "history.changes[].ratio",
                                                     "played[].ratio",
                                                     "played[].counts",
                                                     "played[].began_ms"};

/// A document of version 1 as one of version 2: its samples are one process, of which nothing else is known.
void modernise(Json& document) {
  if (document["schema_version"] != 1) return;
  Json process = {
      {"samples_ms", document["samples_ms"]}, {"started_ms", nullptr}, {"readings", Json::array()}};
  document["processes"] = Json::array({std::move(process)});
}

/// A page draws times on scales: they are times.
void check_samples(const Json& document, const std::string& name) {
  const auto processes = document.find("processes");
  if (processes == document.end() || processes->empty()) user_error("{}: no processes were measured", name);
  for (const Json& process : *processes) {
    if (process["samples_ms"].empty()) user_error("{}: a process without samples", name);
    for (const Json& ms : process["samples_ms"])
      if (ms.get<double>() <= 0) user_error("{}: a sample of {} ms is no time", name, ms.get<double>());
  }
}

/// Two numbers above 0, the first not above the second.
void check_interval(const Json& interval, const std::string& file) {
  if (interval.size() != 2 || interval[0].get<double>() <= 0 ||
      interval[0].get<double>() > interval[1].get<double>())
    user_error("{}: field 'interval' is no interval of a ratio", file);
}

/// Both sides' measurements, each round a process of each.
void check_measured(Json& document, const std::string& file) {
  Json& results = document["results"];
  if (results.is_null()) return;
  const Json& played = document["played"];
  if (results.size() != 2) user_error("{}: field 'results' has {} of two results", file, results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string name = fmt::format("{}, results[{}]", file, i);
    check_result(results[i], name);
    check_samples(results[i], name);
    if (!played.is_array() || played.size() != results[i]["processes"].size())
      user_error("{}: has not a process of each round that 'played' lists", name);
  }
  for (const Json& round : played) {
    if (round["began_ms"].size() != 2)
      user_error("{}: field 'played[].began_ms' is not a time of each side", file);
  }
}

}  // namespace

Json parse_document(const std::string& file) {
  std::ifstream stream = open_document(file);
  bool too_deep = false;
  const Json::parser_callback_t watch = [&](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kDeepest;
    return depth <= kDeepest;
  };
  Json document = Json::parse(stream, watch, false);
  if (too_deep)
    user_error("{}: nested more than {} levels deep, as no document of gantry is", file, kDeepest);
  return document;
}

void check_result(Json& document, const std::string& name) {
  check_types(document, schema_of(page_result_schema), kNeeded, name);
  modernise(document);
}

bool is_comparison(const Json& document) {
  return document.is_object() && document.contains("schema") && document["schema"] == "gantry-comparison";
}

void check_comparison(Json& document, const std::string& file) {
  check_types(document, schema_of(page_comparison_schema), kNeededOfComparisons, file);
  for (const char* field : {"schema_version", "first", "second", "ratio", "interval", "verdict"}) {
    if (!document.contains(field))
      user_error("{}: no field '{}'; is it as `gantry compare --json` writes it?", file, field);
  }
  constexpr int kVersion = 2;
  if (document["schema_version"] != kVersion) {
    user_error("{}: is a comparison of schema version {}; this gantry reads {}", file,
               document["schema_version"].dump(), kVersion);
  }
  for (const char* field : {"first", "second", "ratio", "interval"}) {
    if (document[field].is_null()) {
      user_error(
          "{}: compares nothing: a result was only added to a history; give that result to `gantry report`",
          file);
    }
  }
  if (document["ratio"].get<double>() <= 0) user_error("{}: field 'ratio' is no ratio", file);
  check_interval(document["interval"], file);
  for (const char* field : {"rounds", "elapsed_s", "history", "failed", "played", "results"}) {
    if (!document.contains(field)) document[field] = nullptr;
  }
  check_measured(document, file);
}

}  // namespace gantry::cli
