#include "host/cli/form_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "host/cli/json_values.h"
#include "host/cli/terminal.h"
#include "host/cli/text.h"
#include "host/graph/text.h"
#include "host/support/error.h"
#include "host/support/suggest.h"

namespace gantry::cli {
namespace {

/// The rest of the pipeline is not needed.
struct Decided {};

std::vector<const NodeDecision*> of_node(const std::vector<NodeDecision>& decisions,
                                         const std::string& name) {
  if (decisions.empty()) {
    user_error(
        "--node {}: nothing is decided for any node: the model has none with a choice, or --opt is below {}",
        visible_line(name), kMostOptLevel);
  }
  std::vector<const NodeDecision*> found, near;
  std::vector<std::string> names;
  for (const NodeDecision& decision : decisions) {
    for (const std::string& origin : decision.origin) {
      names.push_back(origin);
      if (origin == name) found.push_back(&decision);
      if (origin.find(name) != std::string::npos && (near.empty() || near.back() != &decision))
        near.push_back(&decision);
    }
  }
  if (found.empty()) found = near;
  if (found.empty()) {
    user_error(
        "--node {}: nothing is decided for a node of that name (`gantry ir MODEL --forms` lists what is){}",
        visible_line(name), did_you_mean(name, names));
  }
  return found;
}

std::string cycles_text(double cycles) {
  constexpr double kWhole =
      1e6;  // of whole thousands from here on, in one unit, so that they compare at sight
  return cycles < kWhole ? fmt::format("{:.4g} kcycles", cycles / 1e3)
                         : fmt::format("{:.0f} kcycles", cycles / 1e3);
}

std::string prediction_text(const Candidate& candidate) {
  if (candidate.ms) return duration_text(*candidate.ms);
  return candidate.cycles ? cycles_text(*candidate.cycles) : "-";
}

std::string conversions_text(const Candidate& candidate) {
  if (candidate.conversions <= 0) return "";
  return candidate.in_ms ? duration_text(candidate.conversions) : cycles_text(candidate.conversions);
}

nlohmann::ordered_json to_json(const Decision& decision) {
  nlohmann::ordered_json json{{"form", decision.form}};
  for (const auto& [name, value] : decision.knobs) json[name] = value;
  return json;
}

}  // namespace

std::vector<NodeDecision> decide_forms(const Graph& graph, const Target& target, CompileOptions options,
                                       bool candidates) {
  std::vector<NodeDecision> decisions;
  options.observer.decisions = &decisions;
  options.observer.candidates = candidates;
  // The next pass begins once all that was decided has been told.
  options.observer.graph_pass = [decided = false](const std::string& pass, const Graph&) mutable {
    if (decided) throw Decided{};
    decided = pass == "alter_layout";
  };
  try {
    lower_program(graph, target, options);
  } catch (const Decided&) {
  }
  return decisions;
}

std::string candidates_text(const std::vector<NodeDecision>& decisions, const std::string& node,
                            size_t width) {
  std::string text;
  for (const NodeDecision* one : of_node(decisions, node)) {
    text += fmt::format("{}{} {}  // {}\n", text.empty() ? "" : "\n", one->op->name, to_string(one->decision),
                        visible_line(origin_text(one->origin)));
    Table table({{"candidate", Table::Align::kLeft},
                 {"predicted", Table::Align::kRight},
                 {"conversions", Table::Align::kRight},
                 {"error", Table::Align::kRight},
                 {"", Table::Align::kLeft}});
    for (const Candidate& candidate : one->candidates) {
      table.row({to_string(candidate.decision), prediction_text(candidate), conversions_text(candidate),
                 candidate.error > 0 ? fmt::format("{:.0e}", candidate.error) : "",
                 candidate.why.empty() ? "taken" : candidate.why});
    }
    text += one->candidates.empty() ? "no model looks at others\n" : table.str(0, width);
  }
  return text;
}

std::string candidates_json(const std::vector<NodeDecision>& decisions, const std::string& node) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const NodeDecision* one : of_node(decisions, node)) {
    nlohmann::ordered_json candidates = nlohmann::ordered_json::array();
    for (const Candidate& candidate : one->candidates) {
      nlohmann::ordered_json entry{{"decision", to_json(candidate.decision)}};
      entry["cycles"] = shown(candidate.cycles);
      entry["ms"] = shown(candidate.ms);
      entry[candidate.in_ms ? "conversion_ms" : "conversion_cycles"] = candidate.conversions;
      entry["error"] = candidate.error;
      entry["taken"] = candidate.why.empty();
      entry["why"] = candidate.why;
      candidates.push_back(std::move(entry));
    }
    json.push_back({{"op", one->op->name},
                    {"nodes", one->origin},
                    {"work", one->work},
                    {"decision", to_json(one->decision)},
                    {"candidates", std::move(candidates)}});
  }
  return document_text(json, 1);
}

}  // namespace gantry::cli
