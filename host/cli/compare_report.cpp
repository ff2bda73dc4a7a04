#include "host/cli/compare_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "host/cli/json_values.h"
#include "host/cli/text.h"
#include "host/support/words.h"

namespace gantry::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchemaVersion = 2;

Json side_json(const ReportSummary& report, double median_ms) {
  return {{"name", report.name},
          {"median_ms", median_ms},
          {"processes", report.processes.size()},
          {"samples", report.samples()},
          {"disturbed_share", shown(report.disturbed_share)},
          {"model", report.model},
          {"module_digest", report.module_digest},
          {"board", said(report.board)},
          {"target", report.target},
          {"device", report.device},
          {"precision", said(report.precision)},
          {"threads", report.threads}};
}

Json played_json(const std::vector<PlayedRound>& rounds) {
  Json list = Json::array();
  for (const PlayedRound& round : rounds)
    list.push_back({{"ratio", round.ratio}, {"counts", round.counts}, {"began_ms", round.began_ms}});
  return list;
}

Json results_json(const std::vector<std::string>& documents) {
  Json list = Json::array();
  for (const std::string& document : documents) list.push_back(Json::parse(document));
  return list;
}

Json change_json(const Change& change) {
  return {{"index", change.index},
          {"date", change.date},
          {"label", change.label},
          {"before_ms", change.before_ms},
          {"after_ms", change.after_ms},
          {"ratio", change.ratio},
          {"interval", {change.low, change.high}},
          {"p_value", change.p_value}};
}

Json history_json(const HistoryReport& history) {
  Json json;
  json["file"] = history.file;
  json["series"] = history.series;
  json["points"] = history.points;
  json["changes"] = Json::array();
  for (const Change& change : history.changes) json["changes"].push_back(change_json(change));
  return json;
}

std::string percent(double ratio) {
  return fmt::format("{:.3g} %", 100 * std::fabs(ratio - 1));
}

std::string sides_table(const CompareReport& report) {
  using Align = Table::Align;
  Table table({{"", Align::kLeft},
               {"median", Align::kRight},
               {"processes", Align::kRight},
               {"samples", Align::kRight},
               {"on", Align::kLeft}});
  const std::pair<const ReportSummary*, double> sides[] = {
      {&report.first, report.comparison.base_median_ms}, {&report.second, report.comparison.other_median_ms}};
  for (const auto& [side, median] : sides) {
    table.row({side->name, duration_text(median), std::to_string(side->processes.size()),
               std::to_string(side->samples()),
               fmt::format("{}, {}, {}{}", side->board, side->target,
                           side->precision.empty() ? "" : side->precision + ", ",
                           counted(side->threads, "thread"))});
  }
  return table.str();
}

/// That others used the cores, and what was done about it; nothing where they did not.
std::string disturbance_lines(const CompareReport& report) {
  constexpr double kMuchDisturbed = 0.03;  // of the samples
  std::string text;
  for (const ReportSummary* side : {&report.first, &report.second}) {
    if (side->disturbed_share.value_or(0) < kMuchDisturbed || side->uses_disturbed) continue;
    text += fmt::format(
        "  {}: others used the cores for {:.0f} % of the time; what was measured then does not count\n",
        side->name, 100 * *side->disturbed_share);
  }
  return text;
}

std::string history_text(const HistoryReport& history) {
  std::string text =
      fmt::format("{}: {} of {}\n", history.file, counted(history.points, "result"), history.series);
  if (history.points < kFewestPoints) {
    return text + fmt::format("  changes are looked for from {} results on\n", kFewestPoints);
  }
  if (history.changes.empty()) text += "  no lasting change\n";
  for (const Change& change : history.changes) {
    text +=
        fmt::format("  since {} ({}): {} {}, {} -> {}, 95 % confidence {:.4g} to {:.4g} times\n", change.date,
                    change.label, percent(change.ratio), change.ratio > 1 ? "slower" : "faster",
                    duration_text(change.before_ms), duration_text(change.after_ms), change.low, change.high);
  }
  return text;
}

}  // namespace

std::string comparison_json(const CompareReport& report) {
  Json json;
  json["schema"] = "gantry-comparison";
  json["schema_version"] = kSchemaVersion;
  const Comparison& c = report.comparison;
  const bool compared = report.compared;
  json["first"] = compared ? side_json(report.first, c.base_median_ms) : Json(nullptr);
  json["second"] = compared ? side_json(report.second, c.other_median_ms) : Json(nullptr);
  json["ratio"] = compared ? Json(c.ratio) : Json(nullptr);
  json["confidence"] = 0.95;
  json["interval"] = compared ? Json({c.low, c.high}) : Json(nullptr);
  json["smallest_effect"] = report.smallest_effect;
  json["verdict"] = compared ? Json(std::string(verdict_name(c.verdict))) : Json(nullptr);
  json["interleaved"] = report.rounds.has_value();
  json["rounds"] = shown(report.rounds);
  json["elapsed_s"] = shown(report.elapsed_s);
  json["widened"] = Json::array();
  for (Widening widening : c.widened) json["widened"].push_back(std::string(widening_text(widening)));
  json["warnings"] = report.warnings;
  json["history"] = report.history ? history_json(*report.history) : Json(nullptr);
  json["failed"] = shown(report.failed);
  json["played"] = report.played.empty() ? Json(nullptr) : played_json(report.played);
  json["results"] = report.results.empty() ? Json(nullptr) : results_json(report.results);
  return document_text(json);
}

std::string verdict_text(const CompareReport& report) {
  const Comparison& c = report.comparison;
  switch (c.verdict) {
    case Verdict::kFaster:
      if (c.ratio <= 0.5) return fmt::format("the second is faster: {:.4g} times as fast", 1 / c.ratio);
      return fmt::format("the second is faster: {} less time", percent(c.ratio));
    case Verdict::kSlower:
      if (c.ratio >= 2) return fmt::format("the second is slower: {:.4g} times the time", c.ratio);
      return fmt::format("the second is slower: {} more time", percent(c.ratio));
    case Verdict::kSame:
      return fmt::format("the same, within {:.3g} %", 100 * report.smallest_effect);
    case Verdict::kNotShown:
      break;
  }
  const bool clear = c.low > 1 || c.high < 1;
  if (clear) {
    return fmt::format("a difference of {}, smaller than what matters (--smallest-effect {:.3g} %)",
                       percent(c.ratio), 100 * report.smallest_effect);
  }
  const double unseen = std::max(c.high / c.ratio - 1, 1 - c.low / c.ratio);
  return fmt::format("not shown to differ; {} would not have been seen{}",
                     unseen < 1 ? fmt::format("differences below {} %", rough_text(100 * unseen))
                                : fmt::format("even {} times the time", rough_text(1 + unseen)),
                     report.rounds ? "; a longer --duration sees smaller ones" : "");
}

std::string comparison_text(const CompareReport& report) {
  std::string text;
  const Comparison& c = report.comparison;
  if (report.compared) {
    text += sides_table(report);
    text += fmt::format("\nratio {:.4f}, 95 % confidence {:.4f} to {:.4f}{}\n{}\n", c.ratio, c.low, c.high,
                        report.rounds ? fmt::format(" ({} rounds in turns, {:.0f} s)", *report.rounds,
                                                    report.elapsed_s.value_or(0))
                                      : "",
                        verdict_text(report));
    for (Widening widening : c.widened)
      text += fmt::format("  wider because of {}\n", widening_text(widening));
    text += disturbance_lines(report);
  }
  if (report.history) {
    if (!text.empty()) text += '\n';
    text += history_text(*report.history);
  }
  return text;
}

}  // namespace gantry::cli
