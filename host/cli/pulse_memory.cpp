#include "host/cli/pulse_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "host/cli/json_values.h"
#include "host/support/error.h"
#include "host/support/folder_lock.h"
#include "host/support/output_file.h"
#include "host/support/words.h"

namespace gantry::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "gantry-core-pulses";
/// Grows with every change of what a pulse computes: levels of another one mean nothing.
constexpr int kVersion = 2;
constexpr uintmax_t kMostBytes = 1 << 20;

struct Machine {
  std::string name;
  std::vector<double> levels;
};

/// Throws Json::exception for what another program wrote.
std::vector<Machine> parse(const Json& json) {
  std::vector<Machine> machines;
  if (json.at("schema") != kSchema || json.at("schema_version") != kVersion) return machines;
  for (const Json& entry : json.at("machines")) {
    Machine machine{entry.at("machine").get<std::string>(), entry.at("levels").get<std::vector<double>>()};
    std::erase_if(machine.levels, [](double level) { return !std::isfinite(level) || level <= 0; });
    machines.push_back(std::move(machine));
  }
  return machines;
}

/// The one that was measured last at the end.
std::vector<Machine> read(const std::filesystem::path& path) {
  std::error_code code;
  if (path.empty() || std::filesystem::file_size(path, code) > kMostBytes || code) return {};
  std::ifstream file(path, std::ios::binary);
  const Json json = Json::parse(file, nullptr, false);
  try {
    return json.is_discarded() ? std::vector<Machine>() : parse(json);
  } catch (const Json::exception&) {
    return {};
  }
}

std::string text_of(const std::vector<Machine>& machines) {
  Json json = {{"schema", kSchema}, {"schema_version", kVersion}, {"machines", Json::array()}};
  for (const Machine& machine : machines)
    json["machines"].push_back({{"machine", machine.name}, {"levels", machine.levels}});
  return document_text(json, 1);
}

template <typename T>
void keep_last(std::vector<T>& values, size_t most) {
  if (values.size() > most) values.erase(values.begin(), values.end() - static_cast<std::ptrdiff_t>(most));
}

}  // namespace

std::vector<double> PulseMemory::levels(const std::string& machine) const {
  for (const Machine& known : read(file_)) {
    if (known.name == machine) return known.levels;
  }
  return {};
}

void PulseMemory::remember(const std::string& machine, double level) const {
  if (file_.empty()) return;
  std::error_code code;
  std::filesystem::create_directories(file_.parent_path(), code);
  const FolderLock lock(file_.parent_path());
  std::vector<Machine> machines = read(file_);
  const auto found =
      std::ranges::find_if(machines, [&](const Machine& known) { return known.name == machine; });
  Machine now{machine, {}};
  if (found != machines.end()) {
    now = std::move(*found);
    machines.erase(found);
  }
  now.levels.push_back(level);
  keep_last(now.levels, kMostLevels);
  machines.push_back(std::move(now));
  keep_last(machines, kMostMachines);
  try {
    write_file(file_, text_of(machines), OutputFile::Privacy::kPrivate);
  } catch (const Error&) {
    // As any cache: what cannot be kept is found out again.
  }
}

std::string pulse_machine(const rpc::BoardInfo& board, int threads, const std::string& cpus) {
  return fmt::format("{}, {}, {}{}", board.cpu, board.hostname, counted(threads, "thread"),
                     cpus.empty() ? "" : " on " + cpus);
}

}  // namespace gantry::cli
