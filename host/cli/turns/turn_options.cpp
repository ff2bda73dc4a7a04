#include "host/cli/turns/turn_options.h"

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "host/cli/quantities.h"

namespace gantry::cli {
namespace {

constexpr std::pair<const char*, rpc::LeasePriority> kPriorities[] = {
    {"background", rpc::LeasePriority::kBackground},
    {"normal", rpc::LeasePriority::kNormal},
    {"urgent", rpc::LeasePriority::kUrgent},
};

}  // namespace

bool waits_by_default() {
  const char* variable = std::getenv("GANTRY_NO_WAIT");
  return variable == nullptr || *variable == '\0';
}

const char* priority_name(rpc::LeasePriority priority) {
  for (const auto& [name, value] : kPriorities)
    if (value == priority) return name;
  return "";
}

void add_turn_options(CLI::App& command, TurnOptions& options) {
  const auto set_priority = [&options](const std::string& word) {
    for (const auto& [name, priority] : kPriorities) {
      if (word != name) continue;
      options.priority = priority;
      return;
    }
    throw CLI::ValidationError("--priority: '" + word.substr(0, 64) +
                               "' is not background, normal or urgent");
  };
  command
      .add_option_function<std::string>("--priority", set_priority,
                                        "Whose turn it is first where several measure; default normal")
      ->type_name("background|normal|urgent");
  CLI::Option* longest = add_duration(command, "--max-wait", options.longest_wait_s,
                                      "Wait so long at most for others who measure there; default 1h");
  longest->each([&options](const std::string&) { options.wait = true; });
  command
      .add_flag_callback(
          "--no-wait", [&options] { options.wait = false; },
          "Do not wait for others who measure: beside them on this machine, not at all on a board")
      ->excludes(longest);
}

}  // namespace gantry::cli
