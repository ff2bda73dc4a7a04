#include "host/cli/parse_message.h"

#include <fmt/format.h>

#include <regex>
#include <vector>

namespace gantry::cli {
namespace {

/// By its whole name, "--name" or "-n": of the command, or, as the parser falls through, of one around it. Null if
/// there is none.
const CLI::Option* find_option(const CLI::App& command, const std::string& name) {
  const bool is_long = name.starts_with("--"), is_short = !is_long && name.size() == 2 && name[0] == '-';
  for (const CLI::App* app = &command; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      if (is_long ? option->check_lname(name.substr(2)) : is_short && option->check_sname(name.substr(1))) return option;
    }
  }
  return nullptr;
}

bool needs_value(const CLI::Option& option) {
  return option.get_items_expected_min() > 0;
}

/// The option whose value is the next argument; null if there is none. "-vo": flags may stand before it.
const CLI::Option* option_without_value(const CLI::App& command, const std::string& argument) {
  if (argument.starts_with("--")) {
    const CLI::Option* option = find_option(command, argument);
    return option != nullptr && needs_value(*option) ? option : nullptr;
  }
  if (!argument.starts_with("-")) return nullptr;
  for (size_t i = 1; i < argument.size(); ++i) {
    const CLI::Option* option = find_option(command, std::string("-") + argument[i]);
    if (option == nullptr) return nullptr;
    if (needs_value(*option)) return i + 1 == argument.size() ? option : nullptr;
  }
  return nullptr;
}

const CLI::App* find_subcommand(const CLI::App& command, const std::string& name) {
  const auto found = command.get_subcommands([&](const CLI::App* one) { return one->check_name(name); });
  return found.empty() ? nullptr : found.front();
}

std::string need_text(const std::string& option, const std::string& type) {
  return type == "TEXT" || type.empty() ? fmt::format("{} needs a value", option)
                                        : fmt::format("{} needs a value: {}", option, type);
}

}  // namespace

bool takes_options(const CLI::Option& option) {
  return option.get_type_name() == "\"OPTIONS\"";
}

std::string misplaced_option(const CLI::App& app, std::span<const std::string> arguments) {
  const CLI::App* command = &app;
  for (size_t i = 0; i + 1 < arguments.size() && arguments[i] != "--"; ++i) {
    const CLI::Option* option = option_without_value(*command, arguments[i]);
    if (option == nullptr) {
      if (const CLI::App* next = find_subcommand(*command, arguments[i])) command = next;
      continue;
    }
    const std::string& value = arguments[++i];
    if (takes_options(*option) || find_option(*command, value.substr(0, value.find('='))) == nullptr) continue;
    const std::string name = option->get_lnames().empty() ? arguments[i - 1] : "--" + option->get_lnames().front();
    return fmt::format("{}; '{}' behind it is an option itself (as a value: {}={})",
                       need_text(name, option->get_type_name()), value, name, value);
  }
  return "";
}

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
  if (std::regex_match(text, part, missing)) return need_text(part[1].str(), part[2].str());
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
