#include "host/driver/network_decider.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "host/driver/decision_file.h"
#include "host/graph/text.h"
#include "host/passes/work_digest.h"
#include "host/support/error.h"

namespace gantry {
namespace {

std::string text_of(const NodeName& name) {
  return fmt::format("{} of {}", name.op->name, name.origin.empty() ? "no node" : origin_text(name.origin));
}

/// Null: there is no node of that number.
const Node* node_of(const Function& function, int64_t number) {
  const auto& nodes = function.nodes();
  return number >= 0 && static_cast<size_t>(number) < nodes.size() ? nodes[static_cast<size_t>(number)]
                                                                   : nullptr;
}

/// Of what records decide.
std::string_view form_of(NetworkQuestion question) {
  switch (question) {
    case NetworkQuestion::kProducts:
      return "combined";
    case NetworkQuestion::kFusions:
      return "apart";
    case NetworkQuestion::kLayouts:
      break;
  }
  return "layouts";
}

/// Another program of the target has, or may have, what stands there.
bool is_of_another(const UsedDecisions* programs, const std::string& place) {
  return programs != nullptr && (!programs->last || programs->places.contains(place));
}

std::string misfit_text(const RecordedDecisions::NetworkAnswer& answer, std::string_view why) {
  return fmt::format("{}: {} does not fit: {}", answer.place, to_string(*answer.decision), why);
}

}  // namespace

void NetworkDecider::before(std::string_view pass, const Graph& graph) {
  if (done_ || (pass != kDecidingPass && pass != kFusingPass)) return;
  done_ = true;
  take_given(graph.main);
  // A graph of fewer passes may look like one that was measured with all of them.
  if (pass == kDecidingPass && context_.recorded != nullptr) take_recorded(graph.main);
  context_.combine_parallel = decided_.combined;
  context_.apart = decided_.apart;
}

void NetworkDecider::after(std::string_view pass) {
  if (!done_ || told_) return;
  told_ = true;
  context_.recorded_layouts = nullptr;
  if (pass == kDecidingPass && !layouts_.misfit.empty()) {
    NetworkRecord& said = records_[static_cast<size_t>(NetworkQuestion::kLayouts)];
    said.record.clear();
    said.unused.push_back(layouts_.misfit);
  }
  tell();
}

void NetworkDecider::take_given(const Function& function) {
  if (!options_.decisions) return;
  decided_.combined = options_.decisions->combines_products(target_.name).value_or(false);
  UsedDecisions* programs = options_.used_decisions.get();
  for (auto& [edge, place] : options_.decisions->apart(target_.name)) {
    if (!has_edge(function, edge)) {
      if (is_of_another(programs, place)) continue;
      user_error(
          "{}: no {} reads what {} makes when the model is compiled for {}; `gantry ir MODEL --before {}` "
          "shows what reads what",
          place, text_of(edge.reader), text_of(edge.maker), target_.name, kDecidingPass);
    }
    if (programs != nullptr) programs->places.insert(place);
    decided_.apart.push_back(std::move(edge));
  }
}

void NetworkDecider::take_recorded(const Function& function) {
  for (const NetworkQuestion question : network_questions()) {
    const std::string key = network_digest(function, question);
    RecordedDecisions::NetworkAnswer answer = context_.recorded->find_network(key);
    NetworkRecord& said = records_.emplace_back(NetworkRecord{question, {}, std::move(answer.unused)});
    if (!answer.decision) continue;
    if (*answer.decision != Decision{std::string(form_of(question)), {}}) {
      said.unused.push_back(misfit_text(answer, fmt::format("it is asked for {}", name_of(question))));
      continue;
    }
    switch (question) {
      case NetworkQuestion::kLayouts:
        layouts_.key = key;
        take_layouts(function, answer, said);
        break;
      case NetworkQuestion::kProducts:
        take_products(answer, said);
        break;
      case NetworkQuestion::kFusions:
        take_fusions(function, answer, said);
        break;
    }
  }
}

void NetworkDecider::take_layouts(const Function& function, const RecordedDecisions::NetworkAnswer& answer,
                                  NetworkRecord& said) {
  for (const auto& [number, decision] : answer.parts) {
    const Node* node = node_of(function, number);
    if (node == nullptr) {
      said.unused.push_back(misfit_text(answer, fmt::format("there is no node {}", number)));
      return;
    }
    layouts_.decisions.emplace_back(node, decision);
  }
  layouts_.place = answer.place;
  context_.recorded_layouts = &layouts_;
  said.record = answer.place;
}

void NetworkDecider::take_products(const RecordedDecisions::NetworkAnswer& answer, NetworkRecord& said) {
  if (options_.decisions && options_.decisions->combines_products(target_.name)) return;
  decided_.combined = true;
  said.record = answer.place;
}

void NetworkDecider::take_fusions(const Function& function, const RecordedDecisions::NetworkAnswer& answer,
                                  NetworkRecord& said) {
  std::vector<Separation> apart;
  for (const auto& [number, decision] : answer.parts) {
    const Node *maker = node_of(function, number), *reader = node_of(function, decision.knob("reader", -1));
    if (maker == nullptr || reader == nullptr || !reads(*reader, *maker)) {
      said.unused.push_back(misfit_text(
          answer, fmt::format("node {} is not read by node {}", number, decision.knob("reader", -1))));
      return;
    }
    apart.push_back({name_of(*maker), name_of(*reader)});
  }
  for (Separation& edge : apart) {
    if (std::ranges::find(decided_.apart, edge) == decided_.apart.end())
      decided_.apart.push_back(std::move(edge));
  }
  said.record = answer.place;
}

void NetworkDecider::tell() {
  const CompileObserver& observer = options_.observer;
  if (observer.network != nullptr) *observer.network = decided_;
  if (observer.network_records != nullptr)
    observer.network_records->insert(observer.network_records->end(), records_.begin(), records_.end());
}

}  // namespace gantry
