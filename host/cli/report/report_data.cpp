#include "host/cli/report/report_data.h"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>

#include "host/cli/compare_report.h"
#include "host/cli/report/page_parts.h"
#include "host/cli/report/schema_check.h"
#include "host/cli/report_summary.h"
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

Json parse_json(std::string_view text) {
  return Json::parse(text);
}

Json parse_result(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) cannot_read(file, errno);
  bool too_deep = false;
  const Json::parser_callback_t watch = [&](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kDeepest;
    return depth <= kDeepest;
  };
  Json document = Json::parse(stream, watch, false);
  if (too_deep) user_error("{}: nested more than {} levels deep, as no bench result is", file, kDeepest);
  return document;
}

/// A document of version 1 as one of version 2: its samples are one process, of which nothing else is known.
void modernise(Json& document) {
  if (document["schema_version"] != 1) return;
  Json process = {
      {"samples_ms", document["samples_ms"]}, {"started_ms", nullptr}, {"readings", Json::array()}};
  document["processes"] = Json::array({std::move(process)});
}

Json read_document(const std::string& file, const Json& schema) {
  Json document = parse_result(file);
  check_types(document, schema, kNeeded, file);
  modernise(document);
  return document;
}

/// What `gantry compare` says of the two, as its document, with the verdict as a sentence; or why it cannot.
Json comparison_of(const ReportSummary& first, const ReportSummary& second) {
  CompareReport report;
  report.first = first;
  report.second = second;
  report.compared = true;
  const Comparability of_both = comparability(first, second);
  report.warnings = of_both.warnings;
  try {
    report.comparison = compare_processes(first.processes, second.processes, {}, of_both.extra_spread);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUser) throw;
    return {{"problem", error.what()}};
  }
  Json comparison = parse_json(comparison_json(report));
  comparison["sentence"] = verdict_text(report);
  return comparison;
}

}  // namespace

Json page_basics(const std::string& gantry_version) {
  Json data;
  data["gantry_version"] = gantry_version;
  data["descriptions"] = descriptions_of(parse_json(page_result_schema[0].text()));
  data["comparison_descriptions"] = descriptions_of(parse_json(page_comparison_schema[0].text()));
  return data;
}

Json report_data(const std::vector<std::string>& files, const std::string& gantry_version) {
  if (files.size() > kMostResults)
    user_error("{} results are more than a page compares: give {} at most", files.size(), kMostResults);
  const Json schema = parse_json(page_result_schema[0].text());
  std::vector<ReportSummary> summaries;
  Json data = page_basics(gantry_version);
  data["results"] = Json::array();
  for (const std::string& file : files) {
    summaries.push_back(read_report(file));
    data["results"].push_back({{"file", file}, {"document", read_document(file, schema)}});
  }
  data["comparisons"] = Json::array();
  for (size_t i = 0; i < summaries.size(); ++i) {
    for (size_t j = 0; j < summaries.size(); ++j) {
      if (i == j) continue;
      data["comparisons"].push_back(
          {{"first", i}, {"second", j}, {"comparison", comparison_of(summaries[i], summaries[j])}});
    }
  }
  return data;
}

}  // namespace gantry::cli
