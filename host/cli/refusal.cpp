#include "host/cli/refusal.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "host/support/error.h"

namespace gantry::cli {

GivenOptions given_options(const CLI::App& command) {
  GivenOptions given;
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() > 0 && !option->get_lnames().empty())
      given.push_back("--" + option->get_lnames().front());
  }
  return given;
}

bool is_given(const GivenOptions& given, const std::string& option) {
  return std::find(given.begin(), given.end(), option) != given.end();
}

void refuse(const GivenOptions& given, const std::vector<std::string>& options, const std::string& why) {
  std::string list;
  size_t found = 0;
  for (const std::string& option : options) found += is_given(given, option) ? 1 : 0;
  size_t named = 0;
  for (const std::string& option : options) {
    if (!is_given(given, option)) continue;
    ++named;
    list += (named == 1 ? "" : named == found ? " and " : ", ") + option;
  }
  if (found > 0) user_error("{}; leave out {}", why, list);
}

}  // namespace gantry::cli
