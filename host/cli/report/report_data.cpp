#include "host/cli/report/report_data.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "host/cli/compare_report.h"
#include "host/cli/report/documents.h"
#include "host/cli/report/page_parts.h"
#include "host/cli/report/schema_check.h"
#include "host/cli/report_summary.h"
#include "host/support/error.h"

namespace gantry::cli {
namespace {

using Json = nlohmann::ordered_json;

Json parse_json(std::string_view text) {
  return Json::parse(text);
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

Verdict verdict_of(const Json& comparison, const std::string& file) {
  for (Verdict verdict : {Verdict::kFaster, Verdict::kSlower, Verdict::kSame, Verdict::kNotShown}) {
    if (comparison["verdict"] == verdict_name(verdict)) return verdict;
  }
  user_error("{}: field 'verdict' is {}, which is none", file, comparison["verdict"].dump());
}

/// As the command said it when it had measured.
std::string sentence_of(const Json& comparison, const std::string& file) {
  CompareReport report;
  report.comparison.verdict = verdict_of(comparison, file);
  report.comparison.ratio = comparison["ratio"];
  report.comparison.low = comparison["interval"][0];
  report.comparison.high = comparison["interval"][1];
  report.smallest_effect = comparison["smallest_effect"];
  if (!comparison["rounds"].is_null()) report.rounds = comparison["rounds"].get<size_t>();
  return verdict_text(report);
}

/// The page of a document of compare: what it says stands as it is, and each side is a result.
Json comparison_data(Json comparison, const std::string& file, const std::string& gantry_version) {
  check_comparison(comparison, file);
  comparison["sentence"] = sentence_of(comparison, file);
  Json data = page_basics(gantry_version);
  data["results"] = Json::array();
  Json sides = std::move(comparison["results"]);
  comparison.erase("results");
  if (!sides.is_null()) {
    for (size_t i = 0; const char* side : {"first", "second"})
      data["results"].push_back({{"file", comparison[side]["name"]}, {"document", std::move(sides[i++])}});
  }
  data["file"] = file;
  data["comparison"] = std::move(comparison);
  return data;
}

}  // namespace

Json page_basics(const std::string& gantry_version) {
  Json data;
  data["gantry_version"] = gantry_version;
  data["descriptions"] = descriptions_of(parse_json(page_result_schema[0].text()));
  data["comparison_descriptions"] = descriptions_of(parse_json(page_comparison_schema[0].text()));
  return data;
}

Json report_data(const std::vector<std::string>& files, const std::string& gantry_version,
                 const std::vector<std::string>& names) {
  if (files.size() > kMostResults)
    user_error("{} results are more than a page compares: give {} at most", files.size(), kMostResults);
  // Each is read once: what one writes into a pipe is gone then.
  std::vector<Json> documents;
  for (const std::string& file : files) documents.push_back(parse_document(file));
  if (files.size() == 1 && is_comparison(documents[0]))
    return comparison_data(std::move(documents[0]), files[0], gantry_version);
  std::vector<ReportSummary> summaries;
  for (size_t i = 0; i < files.size(); ++i) {
    summaries.push_back(summary_of_document(nlohmann::json(documents[i]), files[i]));
    if (!names.empty()) summaries.back().name = names[i];
    check_result(documents[i], files[i]);
  }
  // As `compare` judges two: by a level of pulses that is theirs together.
  const auto judged = [&](size_t i, const std::optional<double>& level) {
    if (!level || *summaries[i].undisturbed_pulse <= *level) return summaries[i];
    ReportSummary again = summary_of_document(nlohmann::json(documents[i]), files[i], level);
    again.name = summaries[i].name;
    return again;
  };
  Json data = page_basics(gantry_version);
  data["comparisons"] = Json::array();
  for (size_t i = 0; i < summaries.size(); ++i) {
    for (size_t j = 0; j < summaries.size(); ++j) {
      if (i == j) continue;
      const auto level = common_level(summaries[i], summaries[j]);
      data["comparisons"].push_back(
          {{"first", i}, {"second", j}, {"comparison", comparison_of(judged(i, level), judged(j, level))}});
    }
  }
  data["results"] = Json::array();
  for (size_t i = 0; i < files.size(); ++i)
    data["results"].push_back({{"file", summaries[i].name}, {"document", std::move(documents[i])}});
  return data;
}

}  // namespace gantry::cli
