#include "host/cli/records_use.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "device_runtime/src/cpu_info.h"
#include "host/cli/between.h"
#include "host/cli/json_values.h"
#include "host/cli/terminal.h"
#include "host/codegen/find_target.h"
#include "host/graph/text.h"
#include "host/records/recorded_decisions.h"
#include "host/records/setting.h"

namespace gantry::cli {
namespace {

// More names than one reads; --verbose has all.
constexpr size_t kNamesSaid = 6;

std::string name_of(const NodeDecision& node) {
  return node.origin.empty() ? node.op->name : origin_text(node.origin);
}

std::string names_text(const std::vector<const NodeDecision*>& nodes, bool all) {
  std::vector<std::string> names;
  for (const NodeDecision* node : nodes) {
    if (!all && names.size() == kNamesSaid) {
      names.push_back(fmt::format("and {} more (--verbose names them)", nodes.size() - kNamesSaid));
      break;
    }
    names.push_back(visible_line(name_of(*node)));
  }
  return fmt::format("{}", fmt::join(names, "; "));
}

/// What a record of a network decides, as it stands behind "decided of the network".
std::string_view words_of(NetworkQuestion question) {
  switch (question) {
    case NetworkQuestion::kProducts:
      return "that products of the same data are combined";
    case NetworkQuestion::kFusions:
      return "which nodes are kept apart";
    case NetworkQuestion::kLayouts:
      break;
  }
  return "how images lie";
}

/// Why records are not used, each with its nodes, in the order in which they are met.
std::vector<std::pair<std::string, std::vector<const NodeDecision*>>> unused_by_reason(
    const std::vector<NodeDecision>& decisions) {
  std::vector<std::pair<std::string, std::vector<const NodeDecision*>>> reasons;
  for (const NodeDecision& node : decisions) {
    for (const std::string& reason : node.unused_records) {
      auto found = std::ranges::find(reasons, reason, [](const auto& entry) { return entry.first; });
      if (found == reasons.end()) found = reasons.insert(reasons.end(), {reason, {}});
      found->second.push_back(&node);
    }
  }
  return reasons;
}

}  // namespace

void add_records_option(CLI::App& command, std::string& place) {
  command
      .add_option("--records", place,
                  "Records of tuning, which decide how nodes are computed where they were measured to be "
                  "faster: a file, or "
                  "postgresql://USER@HOST/DATABASE (see `gantry records`)")
      ->type_name("RECORDS");
}

void add_record_threads_option(CLI::App& command, int& threads) {
  command
      .add_option("--record-threads", threads,
                  "Of --records those of so many threads; default: all, where they are of one number")
      ->type_name("N")
      ->check(is_thread_count())
      ->needs(command.get_option("--records"));
}

std::shared_ptr<records::Store> read_records(const std::string& place, const Invocation& invocation) {
  records::StoreOptions options;
  options.read_only = true;
  options.warn = [&invocation](const std::string& message) { invocation.warn(message); };
  return records::open_store(place, options);
}

std::string machine_name(const rpc::BoardInfo& machine, const Target& target, int gpu) {
  if (target.device != DeviceKind::kGpu) return machine.cpu.empty() ? machine.architecture : machine.cpu;
  const auto index = static_cast<size_t>(gpu);
  return index < machine.gpus.size() ? machine.gpus[index].name : "";
}

std::string machine_name(const Target& target) {
  const runtime::CpuInfo& cpu = runtime::cpu_info();
  const bool is_this =
      target.device != DeviceKind::kGpu &&
      host_target(target).name == target_of_board(cpu.architecture, cpu.llvm_name, cpu.features).name;
  return is_this ? cpu.brand : "";
}

RecordsUse::RecordsUse(const std::string& place, const Invocation& invocation) {
  if (place.empty()) return;
  if (place.find("://") == std::string::npos) invocation.outputs->reads(place, "the records");
  store_ = read_records(place, invocation);
}

void RecordsUse::take_part(CompileOptions& options) {
  options.observer.decisions = &decisions_;
  options.observer.network_records = &network_;
}

void RecordsUse::take_part(CompileOptions& options, const RecordMachine& machine) {
  if (store_ == nullptr) return;
  take_part(options);
  options.records = [this, machine, optimize = options.optimize](const Target& target) {
    const std::string& name = target.device == DeviceKind::kGpu ? machine.name : machine.cpu;
    return records::decisions_of(store_,
                                 records::setting_of(target, name, machine.threads, name_of(optimize)));
  };
}

void RecordsUse::take_part(CompileOptions& options, int threads) {
  if (store_ == nullptr) return;
  take_part(options);
  options.records = [this, threads, optimize = options.optimize](const Target& target) {
    return records::decisions_of(
        store_, records::setting_of(target, machine_name(target), threads, name_of(optimize)));
  };
}

void RecordsUse::say(const std::vector<NodeDecision>& decisions, const Invocation& invocation) const {
  if (store_ == nullptr) return;
  std::vector<const NodeDecision*> decided;
  for (const NodeDecision& node : decisions) {
    if (!node.record.empty()) decided.push_back(&node);
  }
  invocation.note(fmt::format("{} decided {} of {} nodes{}{}", store_->place(), decided.size(),
                              decisions.size(), decided.empty() ? "" : ": ",
                              names_text(decided, invocation.verbose)));
  for (const NetworkRecord& one : network_)
    if (!one.record.empty())
      invocation.note(fmt::format("{} decided of the network {}", one.record, words_of(one.question)));
  for (const auto& [reason, nodes] : unused_by_reason(decisions))
    invocation.note(
        fmt::format("not used: {} ({})", visible_line(reason), names_text(nodes, invocation.verbose)));
  for (const NetworkRecord& one : network_) {
    for (const std::string& reason : one.unused)
      invocation.note(
          fmt::format("not used: {} (the network: {})", visible_line(reason), words_of(one.question)));
  }
}

nlohmann::ordered_json RecordsUse::json() const {
  using Json = nlohmann::ordered_json;
  if (store_ == nullptr) return nullptr;
  Json decided = Json::array(), unused = Json::array();
  for (const NodeDecision& node : decisions_) {
    if (!node.record.empty())
      decided.push_back({{"op", node.op->name},
                         {"nodes", node.origin},
                         {"decision", to_string(node.decision)},
                         {"record", node.record}});
    for (const std::string& reason : node.unused_records)
      unused.push_back({{"op", node.op->name}, {"nodes", node.origin}, {"why", reason}});
  }
  Json network = Json::array();
  for (const NetworkRecord& one : network_) {
    if (!one.record.empty() || !one.unused.empty())
      network.push_back({{"question", std::string(name_of(one.question))},
                         {"record", said(one.record)},
                         {"unused", one.unused}});
  }
  return {{"records", store_->place()},
          {"nodes", decisions_.size()},
          {"decided", decided},
          {"unused", unused},
          {"network", network}};
}

}  // namespace gantry::cli
