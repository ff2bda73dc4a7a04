#include "host/cli/tune_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "host/cli/json_values.h"
#include "host/cli/text.h"
#include "host/graph/text.h"
#include "host/support/words.h"

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

/// By the metric it was tuned by; null by the other one.
void add_untuned(Json& json, tune::Metric metric, double amount) {
  const bool is_time = metric == tune::Metric::kTime;
  json["untuned_ms"] = is_time ? Json(amount) : Json(nullptr);
  json["untuned_instructions"] = is_time ? Json(nullptr) : Json(static_cast<uint64_t>(amount));
}

Json task_json(const tune::Task& task, const tune::TaskResult& result, tune::Metric metric) {
  Json json = {{"op", task.op},
               {"kernel", task.kernel},
               {"work", task.work},
               {"nodes", task.nodes},
               {"share", result.share}};
  add_untuned(json, metric, result.amount);
  json["untuned"] = decision_json(task.untuned);
  json["tuned"] = decision_json(result.decision);
  json["ratio"] = ratio_json(result.ratio);
  json["trials"] = result.trials;
  json["failures"] = result.failures;
  json["of_network"] = result.of_network;
  return json;
}

/// "layer1.0.conv1", of each task; "layer1.0.conv1 -> layer1.0.relu" of what is apart.
std::vector<std::string> nodes_of(const TuneReport& report, const tune::NetworkChange& change) {
  std::vector<std::string> nodes;
  for (const tune::Trial& trial : change.trials) {
    const std::vector<std::string>& own = report.tasks[trial.task].nodes;
    nodes.insert(nodes.end(), own.begin(), own.end());
  }
  for (const tune::NumberedSeparation& one : change.apart)
    nodes.push_back(origin_text(one.edge.maker.origin) + " -> " + origin_text(one.edge.reader.origin));
  return nodes;
}

/// `name`: of what is changed.
Json change_json(const TuneReport& report, const tune::ChangeTrial& trial, const char* name) {
  return {{name, trial.change.what},
          {"nodes", nodes_of(report, trial.change)},
          {"effort", trial.effort == tune::Effort::kSure ? "sure" : "quick"},
          {"ratio", ratio_json(trial.whole)},
          {"remembered", trial.remembered},
          {"accepted", trial.accepted}};
}

Json combined_json(const tune::TuneResult& result) {
  if (!result.combined) return nullptr;
  return {{"ratio", ratio_json(result.combined->whole)},
          {"remembered", result.combined->remembered},
          {"accepted", result.combined->accepted},
          {"kept", result.choices.combined}};
}

std::string amount_text(tune::Metric metric, double amount) {
  return metric == tune::Metric::kTime ? duration_text(amount) : count_text(amount);
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

bool is_kept(const TuneReport& report, const tune::NetworkChange& change) {
  const std::vector<Separation>& apart = report.result.choices.apart;
  return std::ranges::any_of(
             change.trials,
             [&](const tune::Trial& trial) { return report.result.tasks[trial.task].of_network; }) ||
         std::ranges::any_of(change.apart, [&](const tune::NumberedSeparation& one) {
           return std::ranges::find(apart, one.edge) != apart.end();
         });
}

/// What is no matter of one kernel: in which order images lie, what is kept apart. `what`: "other layout".
/// Empty: nothing was tried.
std::string changes_text(const TuneReport& report, const std::vector<tune::ChangeTrial>& changes,
                         std::string_view what) {
  if (changes.empty()) return "";
  const auto tried = std::ranges::count(changes, tune::Effort::kQuick, &tune::ChangeTrial::effort);
  const auto known = std::ranges::count(changes, true, &tune::ChangeTrial::remembered);
  std::string text = counted(tried, what) + " tried on the whole network";
  if (known > 0) text += fmt::format(" ({} before, as records say)", known);
  const tune::ChangeTrial& last = changes.back();
  if (!last.accepted) return text + ", none accepted\n";
  if (!is_kept(report, last.change)) return text + ", one accepted and undone at the end\n";
  const std::vector<std::string> nodes = nodes_of(report, last.change);
  return text + fmt::format("; kept: {} of {}, {} less ({:.1f} to {:.1f} %)\n", last.change.what,
                            fmt::join(nodes, ", "), percent(1 - last.whole->value),
                            100 * (1 - last.whole->high), 100 * (1 - last.whole->low));
}

/// Empty: it was not tried.
std::string combined_text(const tune::TuneResult& result) {
  if (!result.combined) return "";
  const std::optional<tune::Ratio>& whole = result.combined->whole;
  if (!whole) return "products of the same data could not be combined\n";
  return fmt::format(
      "products of the same data combined: {:.3f} ({:.3f} to {:.3f}) of the network as it was{}, {}\n",
      whole->value, whole->low, whole->high, result.combined->remembered ? ", as records say" : "",
      result.choices.combined     ? "kept"
      : result.combined->accepted ? "accepted and undone at the end"
                                  : "not accepted");
}

/// Waits that nobody sees are not worth a word.
std::string waited_text(const TuneReport& report) {
  return report.waited_s < 1
             ? ""
             : fmt::format(", {} of them without a board", duration_text(1e3 * report.waited_s));
}

/// Of a tuner without compile hosts there is nothing to say.
std::string builds_text(const TuneReport& report) {
  if (report.builds.hosts.empty()) return "";
  return fmt::format(", {} programs built here and {} on {}", report.builds.here, report.builds.elsewhere(),
                     counted(report.builds.hosts.size(), "compile host"));
}

Json builds_json(const BuildCounts& builds) {
  Json json = {{"here", builds.here}, {"hosts", Json::array()}};
  for (const auto& [address, programs] : builds.hosts)
    json["hosts"].push_back({{"address", address}, {"programs", programs}});
  return json;
}

std::string summary(const TuneReport& report) {
  const tune::TuneResult& result = report.result;
  const std::string trials =
      fmt::format("{} in {}{}{}{}", counted(result.trials, "trial"), duration_text(1e3 * report.seconds),
                  waited_text(report), result.outcomes.empty() ? "" : " (" + outcomes_text(result) + ")",
                  builds_text(report));
  const bool is_time = report.metric == tune::Metric::kTime;
  if (!result.whole)
    return fmt::format("{}: {}: {}; nothing was shown to {} than what the compiler takes by itself\n",
                       report.model, trials, result.ended,
                       is_time ? "be faster" : "execute fewer instructions");
  const tune::Ratio& whole = *result.whole;
  return fmt::format("{}: {} {} ({:.1f} to {:.1f} %): {} -> {}; {}\n", report.model, percent(1 - whole.value),
                     is_time ? "less time" : "fewer instructions", 100 * (1 - whole.high),
                     100 * (1 - whole.low), amount_text(report.metric, whole.base_amount),
                     amount_text(report.metric, whole.amount), trials);
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
  json["waited_s"] = report.waited_s;
  json["builds"] = builds_json(report.builds);
  json["ended"] = result.ended;
  json["metric"] = std::string(name_of(report.metric));
  add_untuned(json, report.metric, result.untuned_amount);
  json["ratio"] = ratio_json(result.whole);
  json["trials"] = result.trials;
  json["accepted"] = result.accepted;
  json["undone"] = result.undone;
  json["outcomes"] = Json::object();
  for (const auto& [outcome, count] : result.outcomes)
    json["outcomes"][std::string(records::name_of(outcome))] = count;
  json["failures"] = result.failures;
  json["history"] = Json::array();
  for (const tune::Standing& one : result.history)
    json["history"].push_back({{"trials", one.trials}, {"seconds", one.seconds}, {"gain", one.gain}});
  json["layouts"] = Json::array();
  for (const tune::ChangeTrial& trial : result.layouts)
    json["layouts"].push_back(change_json(report, trial, "orders"));
  json["fusions"] = Json::array();
  for (const tune::ChangeTrial& trial : result.fusions)
    json["fusions"].push_back(change_json(report, trial, "apart"));
  json["combined"] = combined_json(result);
  json["records"] = shown(report.records);
  json["records_written"] = report.records_written;
  json["prior"] = nullptr;
  if (report.prior) json["prior"] = {{"file", report.prior->first}, {"examples", report.prior->second}};
  json["tasks"] = Json::array();
  for (size_t i = 0; i < report.tasks.size(); ++i)
    json["tasks"].push_back(task_json(report.tasks[i], result.tasks[i], report.metric));
  return document_text(json);
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
    table.row({nodes_text(report.tasks[i]), percent(result.share), amount_text(report.metric, result.amount),
               result.ratio && !result.of_network
                   ? amount_text(report.metric, result.amount * result.ratio->value)
                   : "",
               std::to_string(result.trials), change_text(report.tasks[i], result)});
  }
  return (table.empty() ? "" : table.str(0, width) + "\n") +
         changes_text(report, report.result.layouts, "other layout") +
         changes_text(report, report.result.fusions, "other fusion") + combined_text(report.result) +
         summary(report);
}

}  // namespace gantry::cli
