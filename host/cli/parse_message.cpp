#include "host/cli/parse_message.h"

#include <fmt/format.h>

#include <regex>
#include <vector>

namespace gantry::cli {

std::string parse_message(const CLI::ParseError& error) {
  const std::string text = error.what();
  std::smatch part;
  // As CLI11 2.1 writes them.
  static const std::regex missing("(.+): 1 required (.+) missing");
  static const std::regex unlike("Could not convert: (\\S+) = (.*)");
  static const std::regex outside("(.+): (.*) not in \\{(.+)\\}");
  static const std::regex again("(.+): At Most 1 required but received (\\d+)");
  static const std::regex either("(-\\S+) excludes (-\\S+)");
  if (std::regex_match(text, part, again))
    return fmt::format("{} is given {} times; it takes one value", part[1].str(), part[2].str());
  if (std::regex_match(text, part, either))
    return fmt::format("{} and {} exclude each other: give one of them", part[1].str(), part[2].str());
  if (std::regex_match(text, part, missing)) {
    return part[2] == "TEXT" ? fmt::format("{} needs a value", part[1].str())
                             : fmt::format("{} needs a value: {}", part[1].str(), part[2].str());
  }
  if (std::regex_match(text, part, unlike))
    return fmt::format("{}: '{}' is not a number that it takes", part[1].str(), part[2].str());
  if (std::regex_match(text, part, outside)) {
    const std::string names = std::regex_replace(part[3].str(), std::regex(","), ", ");
    return fmt::format("{}: '{}' is none of {}", part[1].str(), part[2].str(), names);
  }
  return text;
}

std::string parse_message(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining(true);
  for (const std::string& argument : unknown) {
    if (argument.starts_with("-") && argument != "-")
      return fmt::format("'{}' is no such option", argument.substr(0, argument.find('=')));
  }
  if (!unknown.empty()) return fmt::format("'{}' belongs to no option", unknown[0]);
  return parse_message(error);
}

}  // namespace gantry::cli
