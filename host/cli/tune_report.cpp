#include "host/cli/tune_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "host/cli/text.h"

namespace gantry::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchemaVersion = 1;

Json ratio_json(const std::optional<tune::Ratio>& ratio) {
  if (!ratio) return nullptr;
  return {{"value", ratio->value}, {"interval", {ratio->low, ratio->high}}};
}

Json decision_json(const Decision& decision) {
  Json json{{"form", decision.form}, {"knobs", Json::object()}};
  for (const auto& [name, value] : decision.knobs) json["knobs"][name] = value;
  return json;
}

Json task_json(const tune::Task& task, const tune::TaskResult& result) {
  return {{"op", task.op},
          {"kernel", task.kernel},
          {"work", task.work},
          {"nodes", task.nodes},
          {"share", result.share},
          {"untuned_ms", result.ms},
          {"untuned", decision_json(task.untuned)},
          {"tuned", decision_json(result.decision)},
          {"ratio", ratio_json(result.ratio)},
          {"trials", result.trials},
          {"failures", result.failures}};
}

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

/// "layer1.0.conv1 and 3 more"
std::string nodes_text(const tune::Task& task) {
  if (task.nodes.empty()) return task.op;
  if (task.nodes.size() == 1) return task.nodes.front();
  return fmt::format("{} and {} more", task.nodes.front(), task.nodes.size() - 1);
}

std::string change_text(const tune::Task& task, const tune::TaskResult& result) {
  if (result.decision == task.untuned) return to_string(task.untuned);
  return fmt::format("{} -> {}", to_string(task.untuned), to_string(result.decision));
}

std::string outcomes_text(const tune::TuneResult& result) {
  std::string text;
  for (const auto& [outcome, count] : result.outcomes) {
    if (outcome == records::Outcome::kMisfit) continue;  // looked at, never run
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, records::name_of(outcome));
  }
  return text;
}

std::string summary(const TuneReport& report) {
  const tune::TuneResult& result = report.result;
  const std::string trials = fmt::format("{} trial{} in {}{}", result.trials, result.trials == 1 ? "" : "s",
                                         duration_text(1e3 * report.seconds),
                                         result.outcomes.empty() ? "" : " (" + outcomes_text(result) + ")");
  if (!result.whole)
    return fmt::format("{}: {}; nothing was shown to be faster than what the compiler takes by itself\n",
                       report.model, trials);
  const tune::Ratio& whole = *result.whole;
  return fmt::format("{}: {} less time ({:.1f} to {:.1f} %): {} -> {}; {}\n", report.model,
                     percent(1 - whole.value), 100 * (1 - whole.high), 100 * (1 - whole.low),
                     duration_text(whole.base_ms), duration_text(whole.ms), trials);
}

}  // namespace

std::string tuning_json(const TuneReport& report) {
  const tune::TuneResult& result = report.result;
  Json json;
  json["schema"] = "gantry-tuning";
  json["schema_version"] = kSchemaVersion;
  json["model"] = report.model;
  json["machine"] = report.machine;
  json["target"] = report.target;
  json["precision"] = report.precision;
  json["threads"] = report.threads;
  json["cost_model"] = report.cost_model;
  json["seconds"] = report.seconds;
  json["ended"] = result.ended;
  json["untuned_ms"] = result.untuned_ms;
  json["ratio"] = ratio_json(result.whole);
  json["trials"] = result.trials;
  json["accepted"] = result.accepted;
  json["undone"] = result.undone;
  json["outcomes"] = Json::object();
  for (const auto& [outcome, count] : result.outcomes)
    json["outcomes"][std::string(records::name_of(outcome))] = count;
  json["failures"] = result.failures;
  json["records"] = report.records ? Json(*report.records) : Json(nullptr);
  json["records_written"] = report.records_written;
  json["tasks"] = Json::array();
  for (size_t i = 0; i < report.tasks.size(); ++i)
    json["tasks"].push_back(task_json(report.tasks[i], result.tasks[i]));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string tuning_text(const TuneReport& report, size_t width) {
  Table table({{"nodes", Table::Align::kLeft},
               {"share", Table::Align::kRight},
               {"before", Table::Align::kRight},
               {"after", Table::Align::kRight},
               {"trials", Table::Align::kRight},
               {"decision", Table::Align::kLeft}});
  std::vector<size_t> order(report.tasks.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](size_t i) { return report.result.tasks[i].share; });
  for (const size_t i : order) {
    const tune::TaskResult& result = report.result.tasks[i];
    table.row({nodes_text(report.tasks[i]), percent(result.share), duration_text(result.ms),
               result.ratio ? duration_text(result.ms * result.ratio->value) : "",
               std::to_string(result.trials), change_text(report.tasks[i], result)});
  }
  return (table.empty() ? "" : table.str(0, width) + "\n") + summary(report);
}

}  // namespace gantry::cli
